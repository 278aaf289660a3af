"""A lake: a folder of Parquet files whose commits say which files belong to it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.lake.commit import day_of
from django_pgqueue.spark.lake.folder import CONTROL, LakeFolder
from django_pgqueue.spark.lake.writing import Writing, settle, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ParquetLake(LakeFolder):
    """A lake. Open it with ``ParquetLake.open``; reads see the last commit; write in ``with lake.writing() as …``."""

    @classmethod
    def open(cls, path: str | Path, create: bool = False) -> ParquetLake:
        """Open the lake at a path. ``create``: make an empty lake when the folder is missing or empty.

        Raises PipelineError when there is no lake, when a newer version wrote it, or when it cannot be read.
        """
        if "://" in str(path) or ":/" in str(path):
            raise PipelineError(f"{path} is no folder: object stores can have a copy of a lake only, see publish.")
        lake = cls(Path(path).resolve())
        if not lake.control.joinpath("lake.json").exists():
            if not create:
                raise PipelineError(f"There is no lake in {lake.path}: make it with export, or look at the path.")
            lake._create()
        lake.description  # noqa: B018  (refuses what it cannot read)
        return lake

    def partitions(self, table: str) -> list[str]:
        """Return the partitions of a table, such as ``day=2026-11-21`` or ``grain=hour/day=2026-11-21``."""
        root = self.path / table
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("day=????-??-??") if path.is_dir())

    def files(self, table: str, days: Collection[date] | None = None) -> list[Path]:
        """Return the Parquet files of a table in the newest commit, of some days (UTC) or of all."""
        self.settle()
        return [
            path
            for partition in self.partitions(table)
            if days is None or day_of(partition) in days
            for path in sorted((self.path / table / partition).glob("*.parquet"))
        ]

    def read(self, spark: SparkSession, table: str, days: Collection[date] | None = None) -> DataFrame:
        """Read a table with all its columns and `day`; a file that lacks a column has NULL there."""
        from pyspark.sql.types import DateType, StructType

        columns = StructType([*schema.spark_schema(table).fields]).add("day", DateType())
        files = [str(path) for path in self.files(table, days)]
        if not files:
            return spark.createDataFrame([], columns)
        return spark.read.schema(columns).option("basePath", str(self.path / table)).parquet(*files)

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Take the exclusive right to write. The files that a killed run left are moved or removed first.

        Raises PipelineError when another run has the lake.
        """
        with writing(self) as right:
            yield right

    def settle(self) -> None:
        """Move the files of the newest commit to their places, if the run that committed them could not do so."""
        settle(self)

    def _create(self) -> None:
        if not self.path.parent.is_dir():
            raise PipelineError(f"The folder {self.path.parent} does not exist: create it, or look at the path.")
        try:
            if self.path.exists() and any(name != CONTROL for name in os.listdir(self.path)):
                raise PipelineError(
                    f"{self.path} holds other files, and no lake: give an empty folder, or one that does not exist."
                )
            for folder in (self.commits, self.staging):
                folder.mkdir(parents=True, exist_ok=True)
            described = {
                "format": schema.FORMAT,
                "name": f"{self.path.name[:100]}-{uuid.uuid4().hex[:8]}",
                "created_at": datetime.now(UTC).isoformat(),
            }
            durable.create_json(self.control / "lake.json", described, self.control / f".lake-{uuid.uuid4().hex}")
        except FileExistsError:
            pass  # another run made it at this moment
        except OSError as error:
            raise PipelineError(f"The lake cannot be made: {error.strerror}: {error.filename}") from None
