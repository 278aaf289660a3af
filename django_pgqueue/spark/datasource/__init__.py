"""The Spark data source ``pgqueue``: read, enqueue in bulk, consume as a stream. Nothing here imports Django."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from django_pgqueue.spark.datasource.options import (
    ReadOptions,
    StreamOptions,
    StreamWriteOptions,
    WriteOptions,
    plain,
)
from django_pgqueue.spark.datasource.reader import TableReader
from django_pgqueue.spark.datasource.stream_reader import StreamReader
from django_pgqueue.spark.datasource.tables import TABLES, source_schema
from django_pgqueue.spark.datasource.writer import StreamWriter, Writer


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
        # A stream has the columns of a message, and no option that names another table.
        given = {name: text for name, text in self.options.items() if plain(name) == "table"}
        return source_schema(TABLES[ReadOptions.of(given).table])

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(ReadOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return Writer(WriteOptions.of(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(StreamOptions.of(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(StreamWriteOptions.of(self.options), schema, overwrite)
