"""The lake: Parquet files by day, and commits that make each change whole or not at all."""

from django_pgqueue.spark.lake.commit import Commit, File, Staged
from django_pgqueue.spark.lake.lake import Lake

__all__ = ["Commit", "File", "Lake", "Staged"]
