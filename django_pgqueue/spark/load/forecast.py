"""Replaces the forecast in the database by the newest one of the lake."""

from __future__ import annotations

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.load.rows import copy_into, read_rows
from django_pgqueue.spark.source import Source

TABLE = "pgqueue_backlog_forecast"
COLUMNS = [column.name for column in schema.TABLES["forecast"]]


def load_forecast(source: Source, lake: ParquetLake) -> int:
    """Load the lake's newest forecast into the database. Returns the number of rows. Raises PipelineError."""
    newest = lake.partitions("forecast")[-1:]
    files = [path for partition in newest for path in lake.path.joinpath("forecast", partition).glob("*.parquet")]
    application = "pgqueue spark rollup"
    with source.connect(application_name=application) as connection, source.errors(), connection.transaction():
        connection.execute("DELETE FROM pgqueue_backlog_forecast")
        return copy_into(connection, TABLE, COLUMNS, read_rows(files, COLUMNS))
