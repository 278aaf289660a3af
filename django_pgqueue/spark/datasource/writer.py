"""Implement ``df.write``: a bulk enqueue of the whole frame or nothing, done once even if tasks are repeated."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter

from django_pgqueue.spark.datasource.encoding import RowEncoder
from django_pgqueue.spark.datasource.options import WriteOptions
from django_pgqueue.spark.datasource.staging import BulkEnqueue, StagedRows
from django_pgqueue.spark.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class Writer(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise PipelineError("A queue can only be appended to: .mode('append').")
        self.encoder = RowEncoder(schema, options.constants)
        self.options = options
        self.job = BulkEnqueue(options.source, options.job or f"spark-{uuid.uuid4()}")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return self.job.stage(iterator, self.encoder, create_channels=self.options.create_channels)

    # Spark passes the objects that write() returned.
    def commit(self, messages: list[StagedRows | None]) -> None:  # type: ignore[override]  # see above
        staged = [message for message in messages if message is not None]
        options = self.options
        self.job.ingest(staged, create_channels=options.create_channels, collect=options.bad_rows == "collect")

    def abort(self, messages: list[StagedRows | None]) -> None:  # type: ignore[override]  # see above
        self.job.clean()
