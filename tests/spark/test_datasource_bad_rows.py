"""Rows that cannot be enqueued: the job names them, and enqueues nothing."""

# ruff: noqa: F811  (fixtures that are imported are arguments)
from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from django_pgqueue.spark.datasource import encoding
from django_pgqueue.spark.datasource.bad_rows import PLACE
from django_pgqueue.spark.datasource.encoding import RowEncoder
from django_pgqueue.spark.datasource.staging import BulkEnqueue, StagedRows
from django_pgqueue.spark.source import Source
from tests.spark.test_datasource_write import (
    Database,
    database,  # noqa: F401  (a fixture)
    numbers,
    one,
    stages,
    write,
)
from tests.support.cases import cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = StringType()
SCHEMA = StructType([StructField(name, TEXT) for name in ("handler", "payload")])


def stage(source: Source, rows: list[dict[str, Any]], schema: StructType = SCHEMA, *, batch_rows: int) -> StagedRows:
    """Return what a task has staged that got the rows in batches of so many."""
    whole = pa.Table.from_pylist([{"handler": "mail.send"} | row for row in rows], to_arrow_schema(schema))
    return BulkEnqueue(source, "job").stage(whole.to_batches(batch_rows), RowEncoder(schema, {}))


def test_a_job_names_the_first_bad_row_of_each_task_and_enqueues_nothing(
    spark: SparkSession, dsn: str, database: Database
) -> None:
    payload = "CASE WHEN id IN (7, 9) THEN 'canary77' WHEN id = 199 THEN '\"\\\\u0000\"' ELSE '{}' END"
    with pytest.raises(Exception, match="Nothing was enqueued, because of rows that cannot be") as caught:
        write(numbers(spark, 200, 2, payload=payload), dsn)

    said = str(caught.value)
    assert "\n- row 8 of partition 0, payload: it is no JSON\n- row 100 of partition 1, payload: it has a char" in said
    assert "canary77" not in said
    counts = "SELECT (SELECT count(*) FROM pgqueue_message) + (SELECT count(*) FROM pgqueue_ingest)"
    assert (one(database, counts), stages(database)) == (0, 0)


def test_a_task_with_a_bad_row_reads_its_input_to_the_end(source: Source, database: Database) -> None:
    left = iter(
        pa.RecordBatch.from_pylist([{"handler": "x", "payload": "?"}] * 60, to_arrow_schema(SCHEMA)) for _ in "123"
    )
    staged = BulkEnqueue(source, "job").stage(left, RowEncoder(SCHEMA, {}))

    assert (staged.bad, staged.rows) == ("row 1 of partition 0, payload: it is no JSON", 0)
    assert next(left, None) is None


def test_the_number_of_a_row_counts_all_copies_before_it(
    source: Source, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "PIECE_BYTES", 20_000)
    rows = [{"payload": "?" if n == 15_000 else f'{{"n": {n}}}'} for n in range(20_000)]

    assert stage(source, rows, batch_rows=3000).bad.startswith("row 15001 of partition 0")


def test_a_value_without_a_form_in_json_is_named(source: Source, database: Database) -> None:
    payload = StructType([StructField("n", IntegerType()), StructField("x", DoubleType())])
    schema = StructType([StructField("handler", TEXT), StructField("payload", payload)])
    rows = [{"payload": {"n": n, "x": float("nan") if n in (3, 6) else 1.5}} for n in range(7)]

    assert stage(source, rows, schema, batch_rows=5).bad.startswith("row 4 of partition 0, payload: it is no JSON")


CANARY = "canary77"
REPEATED = {
    "payload": f'{{"a": {CANARY}}}',
    "headers": f'"{CANARY}"',
    "handler": CANARY * 30,
    "dedupe_key": CANARY * 30,
    "order_key": CANARY * 30,
    "limits": f'[1, "{CANARY}"]',
}


@cases(("name", "value"), [*REPEATED.items()])
def test_the_error_about_a_bad_row_does_not_repeat_a_value(
    source: Source, database: Database, name: str, value: str
) -> None:
    schema = StructType([StructField(each, TEXT) for each in dict.fromkeys(("handler", "payload", name))])
    bad = stage(source, [{"payload": "{}"} | {name: value}], schema, batch_rows=3).bad

    assert bad.startswith("row 1 of partition 0")
    assert CANARY not in bad


def test_the_place_of_a_bad_row_is_found_in_the_language_of_the_server() -> None:
    for context in ("line 7, column payload: ", "Zeile 7, Spalte payload: ", "ligne 7, colonne payload : "):
        place = PLACE.search(f"JSON data, line 1: {{\nCOPY pgqueue_stage_12, {context}«{{»")
        assert place is not None
        assert place.groups() == ("7", "payload")


def test_a_map_that_has_a_key_twice_is_a_bad_row_and_its_key_is_not_repeated(
    source: Source, database: Database
) -> None:
    schema = StructType([StructField("handler", TEXT), StructField("payload", MapType(TEXT, IntegerType()))])
    staged = stage(source, [{"payload": [("n", 1)]}, {"payload": [(CANARY, 1), (CANARY, 2)]}], schema, batch_rows=2)

    assert staged.bad == "row 2 of partition 0, payload: a map or a struct has a key twice"


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        ("delay", DoubleType(), 9.87654321e18),
        ("priority", LongType(), 98765432109876),
        ("max_attempts", LongType(), 98765432109876),
        ("cost", LongType(), -98765),
        ("backoff_factor", DoubleType(), -98765.0),
        ("dequeue_at", TimestampNTZType(), datetime(9999, 8, 7, 6, 5, 4)),  # noqa: DTZ001  (Spark's type has no zone)
    ],
)
def test_a_number_or_a_time_that_is_refused_is_not_repeated(
    source: Source, database: Database, column: str, kind: DataType, value: Any
) -> None:
    schema = StructType([StructField("handler", TEXT), StructField("payload", TEXT), StructField(column, kind)])
    staged = stage(source, [{"payload": "{}", column: value}], schema, batch_rows=1)

    assert staged.bad
    assert not [each for each in ("9876", "9999-08", "[", '"') if each in staged.bad]


def test_a_row_that_is_too_long_is_a_bad_row(source: Source, database: Database) -> None:
    long = {"payload": f'"{"x" * (64 * 1024 * 1024)}"'}

    assert stage(source, [{}, long], batch_rows=2).bad == (
        "row 2 of partition 0: payload, body and headers together take more than 64 MB"
    )
