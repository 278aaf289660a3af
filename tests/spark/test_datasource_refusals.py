"""Refusals of the sink, and the traces of a job that fails or is killed."""

# ruff: noqa: F811  (fixtures that are imported are arguments)
from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from django_pgqueue.spark.datasource import encoding
from django_pgqueue.spark.datasource.encoding import PLACE, RowEncoder
from django_pgqueue.spark.datasource.staging import BulkEnqueue, StagedRows
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source
from tests.support.sessions import Session as Database
from tests.support.sessions import column, one
from tests.support.verbs import make_channel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from tests.spark.test_datasource_write import (
    Database,
    database,  # noqa: F401  (a fixture)
    ledger,
    numbers,
    one,
    stages,
    write,
)

CANARY = "canary77"
TEXT = StringType()
SCHEMA = StructType([StructField(name, TEXT) for name in ("handler", "payload")])


def test_duplicates_and_what_does_not_fit_are_counted(spark: SparkSession, dsn: str, database: Database) -> None:
    database.execute("""SELECT pgqueue_channel_set('default', 'full', '{"max_size": 10, "full_policy": "drop"}')""")
    database.execute("SELECT pgqueue_enqueue('x', p_dedupe_key => 'key 3'), pgqueue_enqueue('x', p_channel => 'full')")
    frame = numbers(
        spark, 100, 1, channel="IF(id < 20, 'full', 'default')", dedupe_key="IF(id < 20, NULL, 'key ' || id % 40)"
    )
    write(frame, dsn, job="counted")

    assert ledger(database) == [("counted", 0, 9 + 39, 41, 11)]
    assert one(database, "SELECT count(*) FROM pgqueue_message") == 2 + 9 + 39


def test_a_full_channel_refuses_the_job(spark: SparkSession, dsn: str, database: Database) -> None:
    database.execute("""SELECT pgqueue_channel_set('default', 'full', '{"max_size": 10}')""")
    with pytest.raises(Exception, match='Channel "full" of queue "default" holds 0 of 10 messages; 11 more do not fit'):
        write(numbers(spark, 11, 1), dsn, channel="full")
    write(numbers(spark, 10, 2), dsn, channel="full")

    assert one(database, "SELECT count(*) FROM pgqueue_message") == 10


def test_unknown_channels_are_refused_or_made(spark: SparkSession, dsn: str, database: Database) -> None:
    frame = numbers(spark, 4, channel="'tenant=' || id % 2")
    with pytest.raises(Exception, match='Channel "tenant=0" does not exist in queue "default"'):
        write(frame, dsn)
    write(frame, dsn, create_channels="true")

    assert one(database, "SELECT count(*) FROM pgqueue_channel WHERE name LIKE 'tenant=%'") == 2


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ({"name": "'x'"}, {}, 'A message has no column "name"; it has handler, payload'),
        ({"priority": "'high'"}, {}, "The column priority is string; it may be"),
        ({"payload": "1"}, {}, "The column payload is int; it may be string, struct"),
        ({}, {"jobs": "1"}, "Unknown option jobs"),
        ({}, {"priority": "5"}, "Unknown option priority"),
        ({}, {"source": "host=127.0.0.1 port=9 password=canary77"}, "cannot be reached"),
    ],
)
def test_rows_that_cannot_be_enqueued_are_reported(
    spark: SparkSession, dsn: str, columns: dict[str, str], options: dict[str, str], problem: str
) -> None:
    with pytest.raises(Exception, match=problem) as caught:
        write(numbers(spark, 1, **columns), options.pop("source", dsn), **options)
    assert "canary77" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"handler": None}, "handler: it is missing"),
        ({"delay": float("nan")}, "delay: its value is out of range"),
        ({"priority": 40000}, "the priority is not between -32767 and 32767"),
        ({"max_attempts": 0}, "max_attempts is less than 1"),
        (
            {"dequeue_at": datetime(2026, 1, 1, tzinfo=UTC), "delay": 1.0},
            "both dequeue_at and delay are given: give one",
        ),
        ({"backoff": -1.0}, "backoff is not between 0"),
        ({"backoff_factor": float("nan")}, "backoff_factor is not between 1 and 1000"),
        ({"payload": f'{{"a": {CANARY}}}'}, "payload: it is no JSON"),
        ({"headers": f'"{CANARY}"'}, "headers"),
        ({"handler": CANARY * 30}, "the name of the handler takes 1 to 200 characters"),
        ({"dedupe_key": CANARY * 30}, "the dedupe key is longer than 200 characters"),
        ({"order_key": CANARY * 30}, "order key"),
        ({"limits": f'[1, "{CANARY}"]'}, ""),
        ({"delay": 9.87654321e18}, "delay"),
        ({"priority": 98765432109876}, "priority"),
        ({"max_attempts": 98765432109876}, "max_attempts"),
        ({"cost": -98765}, "cost"),
        ({"backoff_factor": -98765.0}, "backoff_factor"),
        ({"dequeue_at": datetime(9999, 8, 7, 6, 5, 4, tzinfo=UTC), "delay": 1.0}, ""),
        ({"payload": '"\\u0000"'}, "payload: it has a character that PostgreSQL does not store"),
        ({"channel": "a\0b"}, "it has a character that PostgreSQL does not store"),
    ],
)
def test_a_row_that_is_refused_is_named(source: Source, database: Database, row: dict[str, Any], problem: str) -> None:
    """By its number; its content, a secret maybe, is not repeated."""
    kinds = {"priority": LongType(), "max_attempts": LongType(), "cost": LongType(), "dequeue_at": TimestampType()}
    kinds |= dict.fromkeys(("delay", "backoff", "backoff_factor"), DoubleType())
    names = ["handler", "payload", "channel", "headers", "dedupe_key", "order_key", "limits", *kinds]
    schema = StructType([StructField(name, kinds.get(name, TEXT)) for name in names])
    good = {"handler": "mail.send", "payload": '{\n"line break": "canary77"}'}
    rows = [good, good, good | row, good]
    batch = pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema, timezone="UTC"))
    staged = BulkEnqueue(source, "refused").stage([batch], RowEncoder(schema, {}))

    assert staged.bad.startswith("row 3 of partition 0")
    assert problem in staged.bad
    assert not [each for each in (CANARY, "9876", "9999-08") if each in staged.bad]
    assert staged.rows == stages(database) == 0


def test_a_released_channel_refuses_the_job(spark: SparkSession, dsn: str, database: Database) -> None:
    database.execute("SELECT pgqueue_channel_set('default', 'gone'), pgqueue_enqueue('x', p_channel => 'gone')")
    database.execute("SELECT pgqueue_channel_release('default', 'gone')")
    with pytest.raises(Exception, match='Channel "gone" of queue "default" has been released'):
        write(numbers(spark, 3, 1), dsn, channel="gone", create_channels="true")

    assert one(database, "SELECT count(*) FROM pgqueue_message") == 1


def test_a_server_that_crashed_between_tasks_and_commit_is_noticed(source: Source, database: Database) -> None:
    """It empties unlogged tables: the job must not look as if it had enqueued everything."""
    batch = pa.RecordBatch.from_pylist([{"handler": "mail.send"}] * 3, to_arrow_schema(SCHEMA))
    job = BulkEnqueue(source, "crashed")
    staged = job.stage([batch], RowEncoder(SCHEMA, {}))
    database.execute(f"TRUNCATE pgqueue_stage_{staged.stage}")
    with pytest.raises(PipelineError, match=r'^The stages of job "crashed" hold 0 messages, not 3.*run the job again'):
        job.ingest([staged])

    assert ledger(database) == []


def test_the_stages_of_a_killed_driver_go_with_a_later_job(source: Source, database: Database) -> None:
    batch = pa.RecordBatch.from_pylist([{"handler": "mail.send"}], to_arrow_schema(SCHEMA))
    left = BulkEnqueue(source, "killed").stage([batch], RowEncoder(SCHEMA, {}))
    BulkEnqueue(source, "running").stage([batch], RowEncoder(SCHEMA, {}))
    database.execute(
        "UPDATE pgqueue_ingest_stage SET created_at = created_at - interval '3 days' WHERE id = %s", [left.stage]
    )
    BulkEnqueue(source, "later").ingest([])

    assert one(database, "SELECT string_agg(job, ',') FROM pgqueue_ingest_stage") == "running"
    with pytest.raises(PipelineError, match=r'^Stages of job "killed" are gone.*run the job again'):
        BulkEnqueue(source, "killed").ingest([left])


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


def test_a_row_that_is_too_long_is_a_bad_row(source: Source, database: Database) -> None:
    long = {"payload": f'"{"x" * (64 * 1024 * 1024)}"'}

    assert stage(source, [{}, long], batch_rows=2).bad == (
        "row 2 of partition 0: payload, body and headers together take more than 64 MB"
    )


def enqueue_in_bulk(database: Database, job: str, messages: int) -> tuple[object, ...] | None:
    """Enqueue messages with the payloads 1, 2 … as the tasks of the data source do."""
    stage = one(database, "SELECT pgqueue_ingest_open(%s)", job)
    database.execute(
        f"INSERT INTO pgqueue_stage_{stage} (channel, handler, payload)"
        " SELECT 'small', 'mail.send', to_jsonb(i) FROM generate_series(1, %s) AS i",
        [messages],
    )
    return database.execute(
        "SELECT created, duplicates, dropped FROM pgqueue_ingest(%s, 0, ARRAY[%s]::bigint[], %s)",
        [job, stage, messages],
    ).fetchone()


@pytest.mark.parametrize(("policy", "left"), [("drop_oldest", [3, 4, 5]), ("replace", [5])])
def test_the_newest_messages_stay_and_the_others_are_archived_as_dropped(
    database: Database, policy: str, left: list[int]
) -> None:
    make_channel(database, "small", max_size=3, full_policy=policy)
    assert enqueue_in_bulk(database, "first", 2) == (2, 0, 0)

    assert enqueue_in_bulk(database, "second", 5) == (5, 0, 0)

    assert column(database, "SELECT m.payload FROM pgqueue_message AS m ORDER BY m.id") == left
    gone = database.execute("SELECT a.payload, a.outcome FROM pgqueue_archived_message AS a ORDER BY a.id").fetchall()
    assert gone == [(number, "dropped") for number in (1, 2, *range(1, 6 - len(left)))]
