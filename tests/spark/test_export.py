"""Export: what is settled reaches the lake, each row once."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq

from django_pgqueue.spark import schema
from django_pgqueue.spark.export.horizon import find_holder, read_horizon
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.plan import make_plan
from django_pgqueue.spark.export.task import ExportOptions
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.support.sessions import Connect
from tests.support.sessions import Session as Database

ARCHIVE = "pgqueue_archived_message"
LETTERS = "pgqueue_dead_letter"


def lake_rows(lake: Path, table: str = "archive") -> list[dict[str, Any]]:
    """All rows, with those that are there twice, in the order of ids."""
    rows = [
        row
        for path in Lake.open(lake).paths(table)
        for row in pq.read_table(path, partitioning=None, schema=schema.arrow_schema(table)).to_pylist()
    ]
    return sorted(rows, key=lambda row: row["id"])


def ids(lake: Path, table: str = "archive") -> list[int]:
    return [row["id"] for row in lake_rows(lake, table)]


def expected(database: Database, table: str = ARCHIVE) -> list[int]:
    return [row[0] for row in database.execute(f"SELECT id FROM {table} ORDER BY id")]


def test_a_second_export_brings_only_what_is_new(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 1000)
    export(source, lake)
    fill_archive(database, 10)
    fill_dead_letters(database, 5)

    summary = export(source, lake)

    assert summary.rows == {"archive": 10, "dead_letter": 5, "channel": 0}
    assert ids(lake) == expected(database)
    assert ids(lake, "dead_letter") == expected(database, LETTERS)
    assert Lake.open(lake).rows == {"archive": {f"{DAY}": 1010}, "dead_letter": {f"{DAY}": 5}}


def test_when_nothing_is_new_nothing_is_committed(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 10)
    # The second one closes the days that are over.
    for _ in range(2):
        export(source, lake)
    before = Lake.open(lake).versions

    assert export(source, lake).files == 0
    assert Lake.open(lake).versions == before


def test_the_tasks_run_on_spark(spark: Any, source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 5000)
    fill_dead_letters(database, 300)

    export(source, lake, ExportOptions(master="local", range_bytes=100_000))

    assert ids(lake) == expected(database)
    assert ids(lake, "dead_letter") == expected(database, LETTERS)
    assert len(Lake.open(lake).paths("archive")) > 5
    assert Lake.open(lake).read(spark, "archive").agg({"id": "sum"}).first()[0] == sum(expected(database))


def test_rows_that_a_long_transaction_commits_late_are_exported_later_and_once(
    source: Source, database: Database, connect: Connect, lake: Path
) -> None:
    late = connect()
    fill_archive(late, 5, channel="'late'", archived_at="{day} + interval '1 hour'")
    with late.transaction():
        # In a savepoint xmin is another number than that of the transaction.
        fill_archive(late, 2, channel="'late'")
    fill_archive(database, 100)
    fill_dead_letters(database, 3)
    assert export(source, lake).rows == {"archive": 0, "dead_letter": 0, "channel": 1}
    late.commit()
    fill_archive(database, 10)

    assert export(source, lake).rows == {"archive": 117, "dead_letter": 3, "channel": 0}
    assert export(source, lake).rows == {"archive": 0, "dead_letter": 0, "channel": 0}
    assert ids(lake) == expected(database)


def test_the_session_that_holds_the_horizon_back_is_named(source: Source, database: Database, connect: Connect) -> None:
    late = connect(application_name="nightly report")
    late.execute("SELECT pg_current_xact_id()")
    horizon = read_horizon(database)
    assert horizon.xid < horizon.next_xid
    assert find_holder(database, horizon) is None

    holder = find_holder(database, replace(horizon, now=horizon.now + timedelta(minutes=2)))

    assert f"pid {late.info.backend_pid}" in holder.who
    assert "application nightly report" in holder.who


def test_rows_below_the_horizon_are_on_the_servers_disk(database: Database, connect: Connect) -> None:
    """With synchronous_commit = off a crash would take back what the export has seen."""
    careless = connect(autocommit=True)
    careless.execute("SET synchronous_commit = off")
    careless.execute("INSERT INTO pgqueue_tally VALUES ('q', 'c', 1)")
    written = careless.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]

    horizon = read_horizon(database)

    assert database.execute("SELECT pg_current_wal_flush_lsn() >= %s", [written]).fetchone()[0]
    # After a crash, too, the numbers go on above it.
    assert database.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint").fetchone()[0] > horizon.xid
    database.execute("DELETE FROM pgqueue_tally")


def test_every_column_is_as_the_database_says(source: Source, database: Database, lake: Path) -> None:
    fill_archive(
        database,
        20,
        queue="'a/b=c'",
        channel="""(ARRAY['..', 'day=1', 'a/b', '', E'new\\nline', '𝛼"''\\', 'NULL', '%2F'])[1 + i % 8]""",
        handler="'x' || chr(1) || i",
        payload="""jsonb_build_object('text', E'\\u0001 \\\\u0000 " \\r\\n' || repeat('ü', i), 'n', 1e300)""",
        body="CASE WHEN i % 2 = 0 THEN decode(repeat('00ff', i), 'hex') END",
        headers="CASE WHEN i % 3 = 0 THEN '{}'::jsonb END",
        priority="-32768 + i",
        created_at="('{-infinity,4713-01-01 BC,0001-01-01 00:00+00}'::timestamptz[])[1 + i % 3]",
        dequeue_at="('{infinity,294276-01-01,9999-12-31 23:59:59.999999+00}'::timestamptz[])[1 + i % 3]",
        leased_at="CASE WHEN i % 2 = 0 THEN '2026-03-14 12:00:00.123456+05:30'::timestamptz END",
        archived_at="{day} + interval '1 hour'",
        errors="""'[{"attempt": 1}]'::jsonb""",
        started_at="{leased_at} + interval '1 microsecond'",
        dedupe_key="'key ' || i",
        redriven_from="9223372036854775807 - i",
    )  # fmt: skip
    fill_dead_letters(
        database, 5, details="'{}'::jsonb", backoff="interval '1 month 2 days 0.5 s'", backoff_factor="1.5",
        started_at="{leased_at} + interval '1 second'", limits="CASE WHEN i > 0 THEN ARRAY[i, 9] END",
        cost="nullif(i, 0)",
    )  # fmt: skip
    export(source, lake)

    first, last = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    for row, real in zip(lake_rows(lake), as_text(database, ARCHIVE), strict=True):
        assert row["created_at"] == first
        assert row["dequeue_at"] == last
        for name in set(real) - {"created_at", "dequeue_at", "lease_token"}:
            assert row[name] == real[name], name
    for row, real in zip(lake_rows(lake, "dead_letter"), as_text(database, LETTERS), strict=True):
        assert row["backoff_seconds"] == 30 * 86400 + 2 * 86400 + 0.5
        assert json.loads(row["limits"] or "null") == real["limits"]
        for name in (set(real) & set(row)) - {"limits"}:
            assert row[name] == real[name], name


def as_text(database: Database, table: str) -> list[dict[str, Any]]:
    """The rows as psycopg reads them, jsonb as text."""
    types = dict(
        database.execute(
            "SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0",
            [table],
        ).fetchall()
    )
    casts = {"jsonb": "::text", "xid8": "::text::bigint"}
    times = {"created_at", "dequeue_at"} if table == ARCHIVE else set()
    columns = ", ".join(f"{name}{casts.get(kind, '')} AS {name}" for name, kind in types.items() if name not in times)
    with database.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return cursor.execute(f"SELECT {columns} FROM {table} ORDER BY id").fetchall()


def test_dead_letters_that_are_redriven_meanwhile_are_there_once(
    source: Source, database: Database, lake: Path
) -> None:
    fill_dead_letters(database, 500)
    database.execute(f"SELECT pgqueue_redrive(array_agg(id)) FROM {LETTERS} WHERE id %% 2 = 0" % ())
    export(source, lake)
    database.execute(f"SELECT pgqueue_redrive(array_agg(id)) FROM {LETTERS}")
    export(source, lake)

    assert ids(lake, "dead_letter") == expected(database, LETTERS)


def test_channels_are_written_when_they_changed(source: Source, database: Database, lake: Path) -> None:
    export(source, lake)
    assert export(source, lake).rows["channel"] == 0
    database.execute("UPDATE pgqueue_channel SET max_concurrency = 3")

    assert export(source, lake).rows["channel"] == 1
    assert [row["max_concurrency"] for row in lake_rows(lake, "channel")] == [None, 3]
    assert all(row["exported_at"].date() == datetime.now(UTC).date() for row in lake_rows(lake, "channel"))


def test_days_that_are_over_are_not_read_any_more(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 10)
    export(source, lake)
    assert Lake.open(lake).state["closed_before"] is None
    # The horizon has passed what was going on when the day was over for an hour.
    export(source, lake)
    closed = date.fromisoformat(Lake.open(lake).state["closed_before"])

    assert closed >= datetime.now(UTC).date() - timedelta(days=1)
    plan = make_plan(database, Lake.open(lake).state, Lake.open(lake).horizons)
    assert not [task for task in plan.tasks if "20260314" in task.relation]


def test_columns_can_be_left_out_from_now_on(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 1, headers="'{}'::jsonb")
    export(source, lake, ExportOptions(without=("payload", "headers")))
    fill_archive(database, 1, headers="'{}'::jsonb")
    export(source, lake)
    fill_archive(database, 1, headers="'{}'::jsonb")
    export(source, lake, ExportOptions(without=()))

    assert [row["payload"] for row in lake_rows(lake)] == [None, None, '{"order": 0}']
    assert [row["headers"] for row in lake_rows(lake)] == [None, None, "{}"]
