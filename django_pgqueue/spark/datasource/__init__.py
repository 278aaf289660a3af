"""The Spark data source ``pgqueue``: read, enqueue in bulk, consume as a stream. Nothing here imports Django."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class PgQueueDataSource(DataSource):
    """Serve ``spark.read.format("pgqueue")`` and its relatives. Options: docs/reference/spark-datasource.md.

    Spark makes it in processes of the driver; the readers and writers that it returns travel to the workers, with the
    address of the source in them.
    """

    @classmethod
    def name(cls) -> str:
        return "pgqueue"

    def schema(self) -> StructType:
        """Return the schema of a read without ``.schema(…)``: all columns of the table."""
        from django_pgqueue.spark.datasource.options import OptionReader, table_option
        from django_pgqueue.spark.datasource.tables import TABLES, source_schema

        # A stream has the columns of a message, and no option that names another table.
        return source_schema(TABLES[OptionReader(self.options).take("table", table_option, "message")])

    def reader(self, schema: StructType) -> DataSourceReader:
        from django_pgqueue.spark.datasource.options import ReadOptions
        from django_pgqueue.spark.datasource.reader import TableReader

        return TableReader(ReadOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from django_pgqueue.spark.datasource.options import WriteOptions
        from django_pgqueue.spark.datasource.writer import Writer

        return Writer(WriteOptions.of(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from django_pgqueue.spark.datasource.options import StreamOptions
        from django_pgqueue.spark.datasource.stream_reader import StreamReader

        return StreamReader(StreamOptions.of(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from django_pgqueue.spark.datasource.options import WriteOptions
        from django_pgqueue.spark.datasource.writer import StreamWriter

        return StreamWriter(WriteOptions.of(self.options, stream=True), schema, overwrite)
