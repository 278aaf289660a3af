"""The lake: Parquet files by day, and commits that make each change whole or not at all."""

from .commit import Commit, File, Staged
from .lake import Lake

__all__ = ["Commit", "File", "Lake", "Staged"]
