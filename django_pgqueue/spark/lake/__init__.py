"""The lake: a Delta table for each kind of row, and one writer at a time."""

from django_pgqueue.spark.lake.files import LakeFile, StagedFile
from django_pgqueue.spark.lake.lake import Lake

__all__ = ["Lake", "LakeFile", "StagedFile"]
