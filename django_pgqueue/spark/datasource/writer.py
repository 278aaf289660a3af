"""Implement ``df.write`` and ``df.writeStream``: what is written again after a failure is enqueued once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.taskcontext import TaskContext

from django_pgqueue.spark.datasource.encoding import RowEncoder
from django_pgqueue.spark.datasource.options import StreamWriteOptions, WriteOptions
from django_pgqueue.spark.datasource.staging import BulkEnqueue, StagedRows
from django_pgqueue.spark.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"


def spark_property(name: str) -> str:
    """Return a property that Spark sets for the task that runs now. Raises PipelineError outside of a stream."""
    task = TaskContext.get()
    value = None if task is None else task.getLocalProperty(name)
    if value is None:
        raise PipelineError(f"Spark has no property {name} here: this task does not belong to a stream.")
    return str(value)


class StreamWriter(DataSourceStreamArrowWriter):
    """Write a stream into a queue.

    Spark makes another writer for the commit than for the tasks: they share data only in the commit messages.
    """

    def __init__(self, options: StreamWriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise PipelineError("A queue can only be appended to: outputMode('append').")
        self.encoder = RowEncoder(schema, options.constants)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        # The query's id stays with its checkpoint, so it names the same job after a restart.
        job = BulkEnqueue(self.options.source, spark_property(QUERY), int(spark_property(BATCH)))
        return job.stage(iterator, self.encoder)

    # Spark passes the objects that write() returned.
    def commit(self, messages: list[StagedRows | None], batchId: int) -> None:  # type: ignore[override]  # see above
        staged = [message for message in messages if message is not None]
        for name in {message.name for message in staged}:
            job = BulkEnqueue(self.options.source, name, batchId)
            job.ingest(staged, create_channels=self.options.create_channels)

    def abort(self, messages: list[StagedRows | None], batchId: int) -> None:  # type: ignore[override]  # see above
        for name in {message.name for message in messages if message is not None}:
            BulkEnqueue(self.options.source, name, batchId).clean()


class Writer(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise PipelineError("A queue can only be appended to: .mode('append').")
        self.encoder = RowEncoder(schema, options.constants)
        self.options = options
        self.job = BulkEnqueue(options.source, options.job or f"spark-{uuid.uuid4()}")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return self.job.stage(iterator, self.encoder)

    # Spark passes the objects that write() returned.
    def commit(self, messages: list[StagedRows | None]) -> None:  # type: ignore[override]  # see above
        staged = [message for message in messages if message is not None]
        self.job.ingest(staged, create_channels=self.options.create_channels)

    def abort(self, messages: list[StagedRows | None]) -> None:  # type: ignore[override]  # see above
        self.job.clean()
