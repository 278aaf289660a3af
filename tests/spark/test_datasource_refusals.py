"""Refusals of the sink, and the traces of a job that fails or is killed."""

# ruff: noqa: F811  (fixtures that are imported are arguments)
from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructField, StructType, TimestampType

from django_pgqueue.spark.datasource.encoding import RowEncoder
from django_pgqueue.spark.datasource.staging import BulkEnqueue
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source

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
        ({"handler": "x" * 201}, "the name of the handler takes 1 to 200 characters"),
        ({"priority": 40000}, "the priority is not between -32767 and 32767"),
        ({"max_attempts": 0}, "max_attempts is less than 1"),
        (
            {"dequeue_at": datetime(2026, 1, 1, tzinfo=UTC), "delay": 1.0},
            "both dequeue_at and delay are given: give one",
        ),
        ({"backoff": -1.0}, "backoff is not between 0"),
        ({"backoff_factor": float("nan")}, "backoff_factor is not between 1 and 1000"),
        ({"dedupe_key": "x" * 201}, "the dedupe key is longer than 200 characters"),
        ({"payload": "no json"}, "payload: it is no JSON"),
        ({"payload": '"\\u0000"'}, "payload: it has a character that PostgreSQL does not store"),
        ({"channel": "a\0b"}, "it has a character that PostgreSQL does not store"),
    ],
)
def test_a_row_that_is_refused_is_named(source: Source, database: Database, row: dict[str, Any], problem: str) -> None:
    """By its number; its content, a secret maybe, is not repeated."""
    fields = {
        "handler": StringType(), "payload": StringType(), "channel": StringType(), "priority": IntegerType(),
        "max_attempts": IntegerType(), "dequeue_at": TimestampType(), "delay": DoubleType(), "backoff": DoubleType(),
        "backoff_factor": DoubleType(), "dedupe_key": StringType(),
    }  # fmt: skip
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    good = {"handler": "mail.send", "payload": '{\n"line break": "canary77"}'}
    rows = [good, good, good | row, good]
    batch = pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema, timezone="UTC"))
    staged = BulkEnqueue(source, "refused").stage([batch], RowEncoder(schema, {}))

    assert staged.bad.startswith("row 3 of partition 0")
    assert problem in staged.bad
    assert "canary77" not in staged.bad
    assert staged.rows == stages(database) == 0


def test_a_released_channel_refuses_the_job(spark: SparkSession, dsn: str, database: Database) -> None:
    database.execute("SELECT pgqueue_channel_set('default', 'gone'), pgqueue_enqueue('x', p_channel => 'gone')")
    database.execute("SELECT pgqueue_channel_release('default', 'gone')")
    with pytest.raises(Exception, match='Channel "gone" of queue "default" has been released'):
        write(numbers(spark, 3, 1), dsn, channel="gone", create_channels="true")

    assert one(database, "SELECT count(*) FROM pgqueue_message") == 1


def test_a_server_that_crashed_between_tasks_and_commit_is_noticed(source: Source, database: Database) -> None:
    """It empties unlogged tables: the job must not look as if it had enqueued everything."""
    schema = StructType([StructField("handler", StringType()), StructField("payload", StringType())])
    batch = pa.RecordBatch.from_pylist([{"handler": "mail.send"}] * 3, to_arrow_schema(schema))
    job = BulkEnqueue(source, "crashed")
    staged = job.stage([batch], RowEncoder(schema, {}))
    database.execute(f"TRUNCATE pgqueue_stage_{staged.stage}")
    with pytest.raises(PipelineError, match=r'^The stages of job "crashed" hold 0 messages, not 3.*run the job again'):
        job.ingest([staged])

    assert ledger(database) == []


def test_the_stages_of_a_killed_driver_go_with_a_later_job(source: Source, database: Database) -> None:
    schema = StructType([StructField("handler", StringType()), StructField("payload", StringType())])
    batch = pa.RecordBatch.from_pylist([{"handler": "mail.send"}], to_arrow_schema(schema))
    left = BulkEnqueue(source, "killed").stage([batch], RowEncoder(schema, {}))
    BulkEnqueue(source, "running").stage([batch], RowEncoder(schema, {}))
    database.execute(
        "UPDATE pgqueue_ingest_stage SET created_at = created_at - interval '3 days' WHERE id = %s", [left.stage]
    )
    BulkEnqueue(source, "later").ingest([])

    assert one(database, "SELECT string_agg(job, ',') FROM pgqueue_ingest_stage") == "running"
    with pytest.raises(PipelineError, match=r'^Stages of job "killed" are gone.*run the job again'):
        BulkEnqueue(source, "killed").ingest([left])
