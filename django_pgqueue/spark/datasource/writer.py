"""Implements ``df.write``: a bulk enqueue of the whole frame or nothing, done once even if tasks are repeated."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter

from django_pgqueue.spark.datasource.encoding import RowEncoder
from django_pgqueue.spark.datasource.options import WriteOptions
from django_pgqueue.spark.datasource.staging import BulkEnqueue, StagedRows, gathered
from django_pgqueue.spark.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class Writer(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise PipelineError("A queue can only be appended to: .mode('append').")
        self.encoder = RowEncoder(schema, options.constants)
        self.create_channels = options.create_channels
        self.job = BulkEnqueue(options.source, options.job or f"spark-{uuid.uuid4()}")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return StagedRows(self.job.name, *self.job.stage(iterator, self.encoder))

    # Spark passes the objects that write() returned.
    def commit(self, messages: list[StagedRows | None]) -> None:  # type: ignore[override]  # see above
        self.job.ingest(*gathered(messages), create_channels=self.create_channels)

    def abort(self, messages: list[StagedRows | None]) -> None:  # type: ignore[override]  # see above
        self.job.clean()
