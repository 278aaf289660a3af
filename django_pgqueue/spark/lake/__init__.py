"""The lake: Parquet files by day, and commits that make each change whole or not at all."""

from django_pgqueue.spark.lake.commit import Commit, LakeFile, StagedFile
from django_pgqueue.spark.lake.lake import ParquetLake

__all__ = ["Commit", "LakeFile", "ParquetLake", "StagedFile"]
