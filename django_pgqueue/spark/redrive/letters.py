"""Choose dead letters: frames with the column id, and perhaps a new payload."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions
from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, NumericType, StringType, StructType

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from django_pgqueue.spark.source import Source

# These columns are only read when the condition or the new payload names them.
HEAVY = ("payload", "body", "headers", "details", "state", "errors")
# There are more tasks than cores, so that they end at about the same time, and Spark shows how many are done.
PARTITIONS = 16
TEXT_OF = {"ignoreNullFields": "false"}


def dead_letters(
    spark: SparkSession, source: Source, condition: str, payload: str | None = None, partitions: int = PARTITIONS
) -> DataFrame:
    """Return the dead letters of the database for which a condition in Spark SQL is true.

    ``payload``: an expression for the new payload. Raises PipelineError for SQL that Spark does not accept.
    """
    from django_pgqueue.spark.datasource.tables import TABLES, source_schema

    expressions = f"{condition} {payload or ''}"
    fields = [field for field in source_schema(TABLES["dead_letter"]) if _needed(field.name, expressions)]
    reader = spark.read.format("pgqueue").schema(StructType(fields))
    options = {"source": source.conninfo, "table": "dead_letter", "partitions": str(partitions)}
    return chosen(reader.options(**options).load(), condition, payload)


def dead_letters_of(spark: SparkSession, lake: Lake, condition: str, payload: str | None = None) -> DataFrame:
    """Return the dead letters of a lake for which a condition in Spark SQL is true.

    Letters that retention has dropped since, or that were redriven, are counted when the frame is redriven. Raises
    PipelineError.
    """
    missing = [name for name in lake.description.without if _names(name, f"{condition} {payload or ''}")]
    if missing:
        raise PipelineError(
            f"The lake does not have the column {', '.join(missing)} (export --without): choose from the database."
        )
    return chosen(lake.read(spark, "dead_letter"), condition, payload)


def chosen(frame: DataFrame, condition: str, payload: str | None) -> DataFrame:
    """Return the ids of the letters that meet a condition, with their new payload if there is an expression for it.

    Raises PipelineError if Spark does not accept the SQL.
    """
    with errors_of_sql():
        found = frame.where(condition)
        if payload is None:
            return found.select("id")
        return found.select("id", functions.expr(payload).alias("payload"))


def once(letters: DataFrame) -> DataFrame:
    """Return the frame with each id once: two tasks must not have the same letter."""
    return letters.repartition(letters.sparkSession.sparkContext.defaultParallelism, "id").dropDuplicates(["id"])


def prepared(letters: DataFrame) -> DataFrame:
    """Return the id, and the new payload as JSON text. Raises PipelineError for a frame without such columns."""
    types = {field.name: field.dataType for field in letters.schema}
    if "id" not in types:
        raise PipelineError("The frame has no column id: select the ids of the dead letters.")
    columns = [functions.col("id").cast("bigint")]
    if "payload" in types:
        columns.append(_as_json(types["payload"]).alias("payload"))
    return letters.select(*columns).where("id IS NOT NULL")


def _as_json(kind: DataType) -> Column:
    column = functions.col("payload")
    match kind:
        case StringType():
            return column
        case StructType() | MapType() | ArrayType():
            return functions.to_json(column, TEXT_OF)
        case NumericType() | BooleanType():
            return column.cast("string")
    raise PipelineError(
        f"A payload of type {kind.simpleString()} is no JSON: make it text, a struct, a map or an array."
    )


def _needed(name: str, expressions: str) -> bool:
    return name not in HEAVY or _names(name, expressions)


def _names(column: str, expressions: str) -> bool:
    """Return whether SQL names a column. Spark's names have no case."""
    return re.search(rf"\b{column}\b", expressions, re.IGNORECASE) is not None


@contextmanager
def errors_of_sql() -> Iterator[None]:
    """Convert Spark's errors of SQL to PipelineError, in one line."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().splitlines()[0]
        raise PipelineError(f"Spark does not accept this SQL: {reason}") from None
