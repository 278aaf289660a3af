from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_pgqueue.spark.datasource import reader as module
from django_pgqueue.spark.datasource.options import ReadOptions
from django_pgqueue.spark.datasource.reader import TableReader
from django_pgqueue.spark.datasource.tables import TABLES, source_schema
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.support.cases import cases
from tests.support.sessions import Session as Database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return frame.toArrow().to_pylist()


def read(spark: SparkSession, dsn: str, table: str, schema: str = "", **options: str) -> DataFrame:
    reader = spark.read.format("pgqueue").options(source=dsn, table=table, **options)
    return (reader.schema(schema) if schema else reader).load()


def asked(dsn: str, **options: str) -> TableReader:
    """The reader that Spark would make, for what need not run in Spark."""
    given = ReadOptions.of({"source": dsn, **options})
    return TableReader(given, source_schema(TABLES[given.table]))


def test_live_messages_are_read_with_all_their_columns(spark: SparkSession, dsn: str, database: Database) -> None:
    database.execute(
        "SELECT pgqueue_enqueue('mail.send', '{\"to\": \"Ä\"}', p_body => '\\x00ff', p_headers => '{\"a\": 1}',"
        " p_priority => 3, p_dedupe_key => 'once', p_delay => '1 hour')"
    )
    (message,) = rows(read(spark, dsn, "message"))

    assert list(message) == [column.name for column in TABLES["message"].columns]
    shown = {name: message[name] for name in ("queue", "channel", "handler", "payload", "body", "headers", "priority")}
    assert shown == {
        "queue": "default",
        "channel": "default",
        "handler": "mail.send",
        "payload": '{"to": "Ä"}',
        "body": b"\x00\xff",
        "headers": '{"a": 1}',
        "priority": 3,
    }
    assert (message["status"], message["attempts"], message["dedupe_key"]) == ("scheduled", 0, "once")
    assert message["dequeue_at"] - message["created_at"] > timedelta(minutes=59)


def test_a_schema_reads_its_columns_alone_in_its_order(spark: SparkSession, dsn: str, database: Database) -> None:
    fill_dead_letters(database, 3, channel="'a/b=' || i")
    frame = read(spark, dsn, "dead_letter", "channel string, redriven_at timestamp, id bigint")

    assert frame.columns == ["channel", "redriven_at", "id"]
    assert sorted(row["channel"] for row in rows(frame)) == ["a/b=0", "a/b=1", "a/b=2"]


def test_an_empty_table_is_an_empty_frame(spark: SparkSession, dsn: str) -> None:
    assert read(spark, dsn, "archive").count() == 0
    assert rows(read(spark, dsn, "message")) == []


@pytest.mark.parametrize("table", TABLES)
def test_every_column_of_every_table_can_be_read(dsn: str, database: Database, table: str) -> None:
    fill_archive(database, 1)
    fill_dead_letters(database, 1)
    database.execute("SELECT pgqueue_enqueue('mail.send')")
    reader = asked(dsn, table=table)
    (batch,) = [batch for part in reader.partitions() for batch in reader.read(part)]

    assert batch.schema.equals(reader.schema)
    assert batch.num_rows == 1


def test_every_row_is_read_once_from_many_ranges(
    spark: SparkSession, dsn: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_archive(database, 5000)
    fill_archive(database, 3000, DAY + timedelta(days=1))
    expected = database.execute("SELECT count(*), sum(id)::bigint FROM pgqueue_archived_message").fetchone()
    monkeypatch.setattr(module, "RANGE_BYTES", 60_000)
    statements = [part.value for part in asked(dsn, table="archive", partitions="5").partitions()]
    assert len(statements) == 5
    assert sum(map(len, statements)) > 10

    reader = asked(dsn, table="archive", partitions="5")
    ids = [i for part in reader.partitions() for batch in reader.read(part) for i in batch["id"].to_pylist()]
    assert (len(ids), sum(ids)) == expected
    in_spark = read(spark, dsn, "archive", "id bigint").selectExpr("count(*) AS n", "sum(id) AS total")
    assert tuple(in_spark.collect()[0]) == expected


def test_ids_are_cut_into_ranges_of_equally_many_rows(
    dsn: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_dead_letters(database, 1001, id="(i + 1) * CASE WHEN i < 500 THEN 1 ELSE 1000000 END")
    monkeypatch.setattr(module, "ROWS", 100)
    read = asked(dsn, table="dead_letter", partitions="3")
    counts = [sum(batch.num_rows for batch in read.read(part)) for part in read.partitions()]

    assert sum(counts) == 1001
    assert len(counts) == 3
    assert max(counts) <= 401


def test_a_queue_a_channel_and_a_time_can_be_chosen(spark: SparkSession, dsn: str, database: Database) -> None:
    fill_archive(database, 10, channel="CASE i % 2 WHEN 0 THEN 'it''s' ELSE 'b' END")
    fill_archive(database, 10, DAY + timedelta(days=1), queue="'other'")

    assert read(spark, dsn, "archive", queue="other").count() == 10
    assert read(spark, dsn, "archive", channel="it's").count() == 5
    assert read(spark, dsn, "archive", channel="it's", queue="other").count() == 0
    assert read(spark, dsn, "archive", until=f"{DAY}T00:00:05").count() == 2
    since = asked(dsn, table="archive", since=str(DAY + timedelta(days=1)))
    assert all("20260315" in statement for part in since.partitions() for statement in part.value)
    assert sum(batch.num_rows for part in since.partitions() for batch in since.read(part)) == 10


def test_channels_are_read_with_their_limits(spark: SparkSession, dsn: str, database: Database) -> None:
    database.execute("""SELECT pgqueue_channel_set('q', 'a', '{"release_interval": "90 seconds", "weight": 3}')""")
    (channel,) = rows(read(spark, dsn, "channel", queue="q", channel="a"))

    assert (channel["release_interval_seconds"], channel["weight"], channel["max_size"]) == (90.0, 3, None)


@cases(
    ("options", "problem"),
    [
        ({"table": "messages"}, "none of message, archive, dead_letter, channel"),
        ({"quue": "a"}, "Unknown option quue; there are source, table, queue, channel"),
        ({"partitions": "0"}, "partitions is wrong: '0' is not a whole number from 1 on"),
        ({"since": "yesterday"}, "since is wrong"),
        ({"path": "/tmp"}, "reads and writes no path"),
        ({"channel": ""}, "1 to 200 characters"),
    ],
)
def test_wrong_options_are_reported_in_one_line(dsn: str, options: dict[str, str], problem: str) -> None:
    with pytest.raises(Exception, match=problem):
        ReadOptions.of({"source": dsn, **options})


def test_wrong_schemas_are_reported(spark: SparkSession, dsn: str) -> None:
    with pytest.raises(Exception, match='no column "nothing" to read; there are id, queue'):
        read(spark, dsn, "message", "nothing string").count()
    with pytest.raises(Exception, match="The column id is int64 in Arrow, the schema says string"):
        read(spark, dsn, "message", "id string").count()
