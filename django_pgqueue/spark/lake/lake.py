"""A lake: a folder with a Delta table for each kind of row. Any program that reads Delta reads it."""

from __future__ import annotations

import os
import uuid
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError
from deltalake.transaction import create_table_with_add_actions

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError, refused_by_disk
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.lake.files import RANGED
from django_pgqueue.spark.lake.tables import CONTROL, LakeTables
from django_pgqueue.spark.lake.writing import LOCK_SECONDS, Writing, writing

# How long the log names removed files. `compact` deletes them sooner.
LOGGED = "interval 30 days"


class Lake(LakeTables):
    """A lake. Open it with ``Lake.open``; each read sees the newest version; write in ``with lake.writing() as …``."""

    @classmethod
    def open(cls, path: str | Path, create: bool = False) -> Lake:
        """Open the lake at a path. ``create``: make an empty lake when the folder is missing or empty.

        Raises PipelineError when there is no lake, when another version wrote it, or when it cannot be read.
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

    def writing(self, seconds: float = LOCK_SECONDS) -> AbstractContextManager[Writing]:
        """Take the exclusive right to write. The files that a killed run left are removed first.

        Raises LakeBusy when another run has the lake for longer than so many seconds.
        """
        return writing(self, seconds)

    def _create(self) -> None:
        if not self.path.parent.is_dir():
            raise PipelineError(f"The folder {self.path.parent} does not exist: create it, or look at the path.")
        try:
            # A killed run may have made some of the tables.
            if self.path.exists() and not {*os.listdir(self.path)} <= {CONTROL, *schema.TABLES}:
                raise PipelineError(
                    f"{self.path} holds other files, and no lake: give an empty folder, or one that does not exist."
                )
            self.staging.mkdir(parents=True, exist_ok=True)
            for table in schema.TABLES:
                _create_table(self.path / table, table)
            described = {
                "format": schema.FORMAT,
                "name": f"{self.path.name[:100]}-{uuid.uuid4().hex[:8]}",
                "created_at": datetime.now(UTC).isoformat(),
            }
            durable.create_json(self.control / "lake.json", described, self.control / f".lake-{uuid.uuid4().hex}")
        except FileExistsError:
            pass  # another run made it at this moment
        except (OSError, DeltaError) as error:
            reason = " ".join(str(error).split())
            raise refused_by_disk(error) or PipelineError(f"The lake cannot be made: {reason}") from None


def _create_table(path: Path, table: str) -> None:
    if any(path.rglob("*.parquet")):
        raise PipelineError(f"{path} holds Parquet files that belong to no lake: give an empty folder.")
    configuration = {
        "delta.dataSkippingStatsColumns": ",".join(RANGED[table]),
        "delta.deletedFileRetentionDuration": LOGGED,
    }
    create_table_with_add_actions(
        str(path),
        DeltaSchema.from_arrow(schema.arrow_schema(table).append(pa.field("day", pa.date32()))),
        [],
        mode="ignore",
        partition_by=schema.PARTITIONED.get(table, ["day"]),
        name=table,
        configuration=configuration,
    )
