"""Rows that cannot be enqueued: the job names them, and enqueues all others or none."""

# ruff: noqa: F811  (fixtures that are imported are arguments)
from __future__ import annotations

from datetime import datetime
from pathlib import Path
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
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source
from tests.spark.test_datasource_write import (
    Database,
    database,  # noqa: F401  (a fixture)
    ledger,
    numbers,
    one,
    stages,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = StringType()
SCHEMA = StructType([StructField(name, TEXT) for name in ("handler", "payload", "origin")])


def stage(source: Source, rows: list[dict[str, Any]], schema: StructType = SCHEMA, *, batch_rows: int) -> StagedRows:
    """Return what a task has staged that got the rows in batches of so many."""
    whole = pa.Table.from_pylist([{"handler": "mail.send"} | row for row in rows], to_arrow_schema(schema))
    return BulkEnqueue(source, "job").stage(whole.to_batches(batch_rows), RowEncoder(schema, {}))


def messages(database: Database) -> list[int]:
    return [n for (n,) in database.execute("SELECT (payload ->> 'n')::int FROM pgqueue_message ORDER BY id").fetchall()]


def test_a_job_names_the_bad_rows_of_all_tasks_with_file_and_reason_and_enqueues_nothing(
    spark: SparkSession, dsn: str, database: Database, tmp_path: Path
) -> None:
    for name, lines in {"a": ["{}", "canary77", "{}"], "b": ["{}", '{"x": "\\u0000"}']}.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    frame = spark.read.text(str(tmp_path), wholetext=False).selectExpr(
        "'mail.send' AS handler", "value AS payload", "_metadata.file_name AS origin"
    )
    with pytest.raises(Exception, match="2 rows cannot be enqueued, so nothing was enqueued:") as caught:
        write(frame, dsn)

    assert "(a.txt), payload: it is no JSON" in str(caught.value)
    assert "(b.txt), payload: it has a character that PostgreSQL does not store" in str(caught.value)
    assert "canary77" not in str(caught.value)
    assert (messages(database), ledger(database), stages(database)) == ([], [], 0)


def test_bad_rows_that_are_collected_are_in_the_ledger_and_all_others_are_enqueued_in_their_order(
    spark: SparkSession, dsn: str, database: Database
) -> None:
    frame = numbers(
        spark,
        200,
        2,
        payload="IF(id IN (7, 8, 199), 'no json', to_json(struct(id AS n)))",
        channel="IF(id = 150, 'nowhere', NULL)",
        origin="'row ' || id",
    )
    for _ in range(2):
        write(frame, dsn, job="import", badRows="collect")

    assert messages(database) == [n for n in range(200) if n not in (7, 8, 150, 199)]
    assert ledger(database) == [("import", 0, 196, 0, 0)]
    assert one(database, "SELECT bad_rows FROM pgqueue_ingest") == [
        {"partition": partition, "row": row, "origin": f"row {n}", "column": column, "problem": problem}
        for partition, row, n, column, problem in [
            (0, 8, 7, "payload", "it is no JSON"),
            (0, 9, 8, "payload", "it is no JSON"),
            (1, 51, 150, "channel", "its queue has no such channel"),
            (1, 100, 199, "payload", "it is no JSON"),
        ]
    ]
    assert stages(database) == 0


@pytest.mark.parametrize("bad", [100, 101])
def test_more_bad_rows_than_a_hundred_fail_the_job_that_collects(
    spark: SparkSession, dsn: str, database: Database, bad: int
) -> None:
    frame = numbers(spark, 1000, 2, payload=f"IF(id % 9 = 0 AND id < {9 * bad}, '?', to_json(struct(id AS n)))")
    if bad > 100:
        with pytest.raises(Exception, match="More than 100 rows cannot be enqueued, so nothing was") as caught:
            write(frame, dsn, bad_rows="collect")
        assert str(caught.value).count("\n- row ") == 100
        assert (messages(database), ledger(database), stages(database)) == ([], [], 0)
    else:
        write(frame, dsn, bad_rows="collect")
        assert len(messages(database)) == 900


def test_the_rows_between_bad_ones_keep_their_order_over_many_copies(
    source: Source, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "PIECE_BYTES", 20_000)
    rows = [{"payload": "?" if n % 311 == 5 else f'{{"n": {n}}}'} for n in range(20_000)]
    staged = stage(source, rows, batch_rows=3000)
    BulkEnqueue(source, "job").ingest([staged], collect=True)

    assert [row.row - 1 for row in staged.bad] == [n for n in range(20_000) if n % 311 == 5]
    assert messages(database) == [n for n in range(20_000) if n % 311 != 5]


def test_a_task_with_too_many_bad_rows_stops_copying_and_reads_its_input_to_the_end(
    source: Source, database: Database
) -> None:
    left = iter(
        pa.RecordBatch.from_pylist([{"handler": "x", "payload": "?"}] * 60, to_arrow_schema(SCHEMA)) for _ in "12345"
    )
    staged = BulkEnqueue(source, "job").stage(left, RowEncoder(SCHEMA, {}))

    assert len(staged.bad) == 120
    assert next(left, None) is None
    with pytest.raises(PipelineError, match=r"^More than 100 rows"):
        BulkEnqueue(source, "job").ingest([staged], collect=True)


def test_values_without_a_form_in_json_are_bad_rows_and_their_neighbours_are_not(
    source: Source, database: Database
) -> None:
    payload = StructType([StructField("n", IntegerType()), StructField("x", DoubleType())])
    schema = StructType([StructField("handler", TEXT), StructField("payload", payload)])
    rows = [{"payload": {"n": n, "x": float("nan") if n in (0, 3, 6) else 1.5}} for n in range(7)]
    staged = stage(source, rows, schema, batch_rows=5)
    BulkEnqueue(source, "job").ingest([staged], collect=True)

    assert [(row.row, row.column) for row in staged.bad] == [(1, "payload"), (4, "payload"), (7, "payload")]
    assert "it is no JSON" in staged.bad[0].problem
    assert messages(database) == [1, 2, 4, 5]


CANARY = "canary77"
REPEATED = {
    "payload": f'{{"a": {CANARY}}}',
    "headers": f'"{CANARY}"',
    "channel": CANARY,
    "queue": CANARY,
    "handler": CANARY * 30,
    "dedupe_key": CANARY * 30,
    "order_key": CANARY * 30,
    "limits": f'[1, "{CANARY}"]',
}


def test_no_report_of_a_bad_row_repeats_a_value(
    source: Source, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["handler", *(name for name in REPEATED if name != "handler")]
    schema = StructType([StructField(name, TEXT) for name in names])
    rows = [{"payload": "{}"} | {name: value} for name, value in REPEATED.items()]
    staged = stage(source, rows, schema, batch_rows=3)
    BulkEnqueue(source, "job").ingest([staged], collect=True)

    assert [row.row for row in staged.bad] == [*range(1, len(REPEATED) + 1)]
    assert CANARY not in str([*map(str, staged.bad)]) + "".join(capsys.readouterr())
    assert CANARY not in str(one(database, "SELECT bad_rows FROM pgqueue_ingest"))


def test_the_place_of_a_bad_row_is_found_in_the_language_of_the_server() -> None:
    for context in ("line 7, column payload: ", "Zeile 7, Spalte payload: ", "ligne 7, colonne payload : "):
        place = PLACE.search(f"JSON data, line 1: {{\nCOPY pgqueue_stage_12, {context}«{{»")
        assert place is not None
        assert place.groups() == ("7", "payload")


def test_a_map_that_has_a_key_twice_is_a_bad_row_and_its_key_is_not_repeated(
    source: Source, database: Database
) -> None:
    schema = StructType([StructField("handler", TEXT), StructField("payload", MapType(TEXT, IntegerType()))])
    staged = stage(source, [{"payload": [(CANARY, 1), (CANARY, 2)]}, {"payload": [("n", 1)]}], schema, batch_rows=2)
    BulkEnqueue(source, "job").ingest([staged], collect=True)

    assert [str(row) for row in staged.bad] == ["row 1 of partition 0, payload: a map or a struct has a key twice"]
    assert messages(database) == [1]


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

    [bad] = staged.bad
    assert "9876" not in str(bad)
    assert "9999-08" not in str(bad)
    assert not {"[", '"'} & {*bad.problem}


def test_a_row_that_is_too_long_is_a_bad_row(source: Source, database: Database) -> None:
    long = {"payload": f'"{"x" * (64 * 1024 * 1024)}"'}
    staged = stage(source, [{}, long, {"handler": "x" * 201}], batch_rows=3)

    assert [str(row) for row in staged.bad] == [
        "row 2 of partition 0: payload, body and headers together take more than 64 MB",
        "row 3 of partition 0: the name of the handler takes 1 to 200 characters",
    ]
