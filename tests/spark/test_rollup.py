"""Rollups: every number of every row is the one that PostgreSQL computes from the archive itself."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.schema import arrow_schema
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.buckets import day_metrics
from django_pgqueue.spark.transforms.messages import read_messages
from django_pgqueue.spark.transforms.rollup import ACCURACY, FEW_MESSAGES, LARGE_DAY, Rolled, is_small, rollup
from django_pgqueue.spark.transforms.touched import Touched
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.truth import expected_metrics, lake_metrics
from tests.support.sessions import Session as Database

SLA = {"default": timedelta(seconds=4), "default/tenant 1": timedelta(seconds=2, milliseconds=500)}
SLA_JSON = json.dumps({name: limit.total_seconds() for name, limit in SLA.items()})
# i is the number of the row: messages of several queues, tenants and handlers that take times which look random.
MIXED = {
    "queue": "CASE WHEN i % 11 = 0 THEN 'mail' ELSE 'default' END",
    "channel": "'tenant ' || i % 3",
    "handler": "'shop.' || i % 2",
    "attempts": "1 + i % 3",
    "created_at": "{day} - interval '1 hour' + i * interval '47.123457 seconds'",
    "dequeue_at": "{created_at} + (i * 7919 % 1009) * interval '1.000003 milliseconds'",
    "leased_at": "{dequeue_at} + (i * 104729 % 10007) * interval '1 millisecond'",
    "errors": "CASE WHEN i % 3 > 0 THEN jsonb_build_array(jsonb_build_object('attempt', 1, 'type', 'Error' || i % 4,"
    " 'leased_at', {created_at} + interval '250 milliseconds', 'started_at',"
    " CASE WHEN i % 2 = 0 THEN {created_at} + interval '0.75 seconds' END,"
    " 'at', {created_at} + interval '1.5 seconds')) END",
}


def fill_mixed(database: Database) -> None:
    fill_archive(
        database,
        1500,
        **MIXED,
        archived_at="greatest({day}, {leased_at} + (i * 31337 % 5003) * interval '1 millisecond')",
        outcome="(ARRAY['completed', 'completed', 'completed', 'popped', 'cancelled'])[1 + i % 5]",
        started_at="CASE WHEN i % 4 > 0 THEN {leased_at} + ({archived_at} - {leased_at}) * 0.7 END",
    )
    fill_dead_letters(
        database,
        300,
        **MIXED,
        dead_at="greatest({day}, {leased_at} + interval '1 second')",
        reason="'r' || i % 2",
        started_at="CASE WHEN i % 4 > 0 THEN {leased_at} + interval '0.3 seconds' END",
    )


Roll = Callable[..., Rolled]
# Whether there is a session, and from how many messages a day is computed in SQL.
WAYS = {"in this process": (False, 0), "as tasks on Spark": (True, 1_000_000), "in SQL on Spark": (True, 0)}


@pytest.fixture(params=WAYS)
def roll(request: pytest.FixtureRequest) -> Roll:
    """Compute the metrics of a lake in one of the three ways."""
    has_session, large = WAYS[request.param]
    return rolling(request.getfixturevalue("spark") if has_session else None, large)


def rolling(spark: Any, large: int) -> Roll:
    def roll(lake: Path, **options: Any) -> Rolled:
        return rollup(spark, ParquetLake.open(lake), SLA, large=large, **options)

    return roll


def test_every_number_is_the_truth(roll: Roll, source: Source, database: Database, lake: Path) -> None:
    fill_mixed(database)
    export(source, lake)

    rolled = roll(lake)

    found, truth = lake_metrics(lake), expected_metrics(database, SLA_JSON)
    assert found.keys() == truth.keys()
    for key, row in truth.items():
        assert found[key] == row, key
    assert set(rolled.days) == {DAY, DAY - timedelta(days=1)}


def test_a_message_counts_in_each_column_as_the_reference_says(
    roll: Roll, source: Source, database: Database, lake: Path
) -> None:
    hour = f"timestamptz '{DAY} 10:00+00'"
    failed = [
        {"attempt": 1, "type": "ValueError", "leased_at": f"{DAY}T10:00:01+00:00", "at": f"{DAY}T10:00:03+00:00"},
        {"attempt": 2, "type": "OSError", "leased_at": f"{DAY}T15:30:05+05:30", "at": f"{DAY}T15:30:05.5+05:30"},
        "this is no object",
        {"attempt": "x", "at": "never", "leased_at": "infinity"},
    ]
    same = {"created_at": hour, "handler": "'h'"}
    # Waits 1, runs 10; two attempts failed before, after 2 and 0.5 seconds, and two errors cannot be read.
    fill_archive(
        database, 1, **same, attempts="3", dequeue_at=f"{hour} + interval '9 s'",
        archived_at="{leased_at} + interval '10 s'", errors=f"'{json.dumps(failed)}'",
    )  # fmt: skip
    fill_archive(database, 1, **same, outcome="'popped'", archived_at="{leased_at}")
    # Its last attempt failed, after 3 seconds.
    last = {"attempt": 5, "type": "OSError", "leased_at": f"{DAY}T10:00:01+00:00", "at": f"{DAY}T10:00:04+00:00"}
    fill_dead_letters(database, 1, **same, dead_at=f"{hour} + interval '4 s'", errors=f"'{json.dumps([last])}'")
    # No worker ever had it.
    fill_archive(
        database, 1, **same, leased_at="NULL", attempts="0", archived_at=f"{hour} + interval '1 h'", outcome="'purged'"
    )
    fill_archive(
        database, 2, **same, leased_at="NULL", attempts="0", archived_at=f"{hour} + interval '1 h'", outcome="'dropped'"
    )
    # Another tenant, from a time that has no hour.
    fill_archive(
        database, 1, channel="'other'", handler="'h'", created_at="timestamptz '-infinity'", dequeue_at=hour,
        outcome="'cancelled'", archived_at="{leased_at} + interval '4.5 s'",
    )  # fmt: skip
    export(source, lake)
    roll(lake)

    rows = {key[1:]: row for key, row in lake_metrics(lake).items() if key[0] == "hour"}
    ten, eleven = (datetime(DAY.year, DAY.month, DAY.day, hour, tzinfo=UTC) for hour in (10, 11))
    row = rows[ten, "default", "default", "h"]
    assert row == {
        "enqueued": 6, "completed": 1, "popped": 1, "purged": 0, "dropped": 0, "cancelled": 0, "dead": 1,
        "attempts": 3 + 1 + 5, "retries": 4,
        "wait_p50_seconds": 1.0, "wait_p95_seconds": 1.0, "wait_p99_seconds": 1.0,
        "run_p50_seconds": 3.0, "run_p95_seconds": 10.0, "run_p99_seconds": 10.0,
        "total_p50_seconds": 4.0, "total_p95_seconds": 20.0, "total_p99_seconds": 20.0,
        "run_seconds": 10 + 2.5 + 0 + 3, "capacity_share": 15.5 / 20, "retry_seconds": 2.5 + 3,
        "sla_seconds": 4.0, "sla_breaches": 2,
        "retries_by_reason": {"ValueError": 1, "OSError": 1, "unknown": 2}, "dead_by_reason": {"failed": 1},
        "level": "handler", "total_max_seconds": 20.0,
    }  # fmt: skip
    assert rows[ten, "default", "default", None] == row | {"level": "channel"}
    assert rows[ten, "default", "other", None]["capacity_share"] == 4.5 / 20
    whole = rows[ten, "default", None, None]
    assert (whole["level"], whole["capacity_share"], whole["cancelled"], whole["run_p50_seconds"]) == (
        "queue",
        1.0,
        1,
        3.0,
    )
    late = rows[eleven, "default", "default", "h"]
    assert late["dropped"] == 2
    assert (late["purged"], late["enqueued"], late["attempts"], late["sla_breaches"]) == (1, 0, 0, 0)
    assert (late["wait_p50_seconds"], late["run_seconds"], late["capacity_share"]) == (None, 0.0, None)


def test_an_interrupted_rollup_goes_on_and_late_data_corrects_what_it_touches(
    roll: Roll, source: Source, database: Database, lake: Path
) -> None:
    fill_mixed(database)
    export(source, lake)

    def interrupt(done: int, of: int) -> None:
        assert (done, of) == (1, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        roll(lake, most=1, done=interrupt)
    assert {key[1].date() for key in lake_metrics(lake)} == {DAY}
    other = date(2026, 2, 1)
    created_at = f"timestamptz '{other} 12:00+00' + i * interval '1 minute'"
    fill_archive(database, 20, created_at=created_at, archived_at="{day} + interval '20 hours'")
    export(source, lake)

    assert set(roll(lake).days) == {DAY, DAY - timedelta(days=1), other}
    assert lake_metrics(lake) == expected_metrics(database, SLA_JSON)
    assert roll(lake) == Rolled()


def test_metrics_by_minute_are_kept_of_the_newest_days_and_all_others_stay(
    roll: Roll, source: Source, database: Database, lake: Path
) -> None:
    def days_by_minute() -> set[date]:
        return {key[1].date() for key in lake_metrics(lake) if key[0] == "minute"}

    first, second, third = (DAY + timedelta(days=days) for days in (-5, -1, 0))
    for day in (first, second):
        fill_archive(database, 40, day=day)
    export(source, lake)
    roll(lake, keep_minutes=7)
    assert days_by_minute() == {first, second}
    fill_archive(database, 40, day=third)
    export(source, lake)

    roll(lake, keep_minutes=2)

    truth = expected_metrics(database, SLA_JSON)
    kept = {key: row for key, row in truth.items() if key[0] != "minute" or key[1].date() >= second}
    assert days_by_minute() == {second, third}
    assert lake_metrics(lake) == kept
    roll(lake, keep_minutes=2, everything=True)
    assert lake_metrics(lake) == kept
    roll(lake, everything=True)
    assert lake_metrics(lake) == truth


def test_percentiles_are_exact_up_to_fifty_thousand_messages_and_close_beyond(spark: Any) -> None:
    statement = (
        "SELECT percentile_approx(value, array(0.5D, 0.95D, 0.99D), {}) FROM (SELECT id * 7919 % {} AS value FROM {})"
    )

    def percentiles(values: int) -> list[int]:
        return spark.sql(statement.format(ACCURACY, values, f"range(0, {values}, 1, 7)")).collect()[0][0]

    assert percentiles(49_999) == [24_999, 47_499, 49_499]
    for found, true in zip(percentiles(1_000_003), [500_001, 950_002, 990_002], strict=True):
        assert abs(found - true) <= 1_000_003 / ACCURACY


def test_a_damaged_file_is_named_in_each_way(roll: Roll, source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 30)
    export(source, lake)
    [path] = lake.glob("archive/*/*.parquet")
    content = path.read_bytes()
    path.write_bytes(b"\0" * 100 + content[100:-100] + b"\0" * 100)

    with pytest.raises(PipelineError, match=f"^{path} cannot be read, it is damaged"):
        roll(lake)


def test_all_ways_read_errors_alike_that_no_worker_writes(
    spark: Any, source: Source, database: Database, lake: Path, tmp_path: Path
) -> None:
    times = {"leased_at": f"{DAY}T09:59:00Z", "at": f"{DAY} 10:00:00.25"}
    odd: list[Any] = [
        None, 5, True, [1], "text", {}, {"type": 7, "attempt": 1.50}, {"type": {"a": [1, "ü"]}}, {"type": True},
        {"type": "", **times}, {"type": "Empty", "started_at": "", **times},
        {"type": "Late", **times, "at": "infinity"},
        {"type": "Zone", "attempt": "1", "leased_at": f"{DAY}T10:00:00+05:30", "at": f"{DAY}T04:30:01.000001+00"},
        {"type": "Back", "leased_at": times["at"], "at": times["leased_at"]}, {"attempt": 2, "type": None, **times},
    ]  # fmt: skip
    for entries in [*([entry] for entry in odd), odd, []]:
        text = json.dumps(entries).replace("'", "''")
        fill_archive(database, 1, handler=f"'h{len(entries)}'", attempts="2", errors=f"'{text}'")
    found = []
    for number, (has_session, large) in enumerate(WAYS.values()):
        export(source, folder := tmp_path / f"lake {number}")
        rolling(spark if has_session else None, large)(folder)
        found.append(lake_metrics(folder))

    assert found[0] == found[1] == found[2]
    day = next(row for key, row in found[0].items() if key[0] == "day" and row["level"] == "queue")
    assert (day["retries"], day["retries_by_reason"]["unknown"]) == (28, 12)


def test_files_of_an_older_version_have_no_start_of_the_handler(tmp_path: Path) -> None:
    at = datetime(DAY.year, DAY.month, DAY.day, 10, tzinfo=UTC)
    old = ["queue", "channel", "handler", "created_at", "dequeue_at", "leased_at", "archived_at", "outcome", "attempts"]
    row = {**dict.fromkeys(old[:3], "x"), **dict.fromkeys(old[3:6], at), "archived_at": at + timedelta(seconds=3)}
    row |= {"outcome": "completed", "attempts": 1}
    schema = pa.schema([arrow_schema("archive").field(name) for name in old])
    pq.write_table(pa.Table.from_pylist([row], schema), path := tmp_path / "old.parquet")

    found = day_metrics(DAY, read_messages(DAY, [("archive", str(path))], []), {}, ["day"])["day"].to_pylist()

    assert [(row["level"], row["run_p50_seconds"], row["enqueued"]) for row in found] == [
        ("queue", 3.0, 1), ("channel", 3.0, 1), ("handler", 3.0, 1),
    ]  # fmt: skip


def test_only_few_messages_are_computed_without_spark(lake: Path) -> None:
    opened = ParquetLake.open(lake, create=True)

    def is_small_with(**messages: int) -> bool:
        days = {str(DAY): messages["today"], str(DAY - timedelta(days=1)): messages["yesterday"]}
        with opened.writing() as writing:
            writing.commit("export", state={"rows": {"archive": days}})
        # Messages of today were created yesterday.
        return is_small(opened, Touched(1, {DAY - timedelta(days=1)}, {DAY: {DAY - timedelta(days=1)}}))

    assert is_small_with(today=FEW_MESSAGES - 1, yesterday=1)
    assert not is_small_with(today=FEW_MESSAGES, yesterday=1)
    assert FEW_MESSAGES <= LARGE_DAY


@pytest.mark.timeout(400)
def test_a_rollup_that_is_killed_while_it_writes_is_whole_or_not_there(
    source: Source, database: Database, lake: Path
) -> None:
    fill_mixed(database)
    export(source, lake)
    truth = expected_metrics(database, SLA_JSON)
    command = [sys.executable, "-m", "django_pgqueue.spark", "rollup", "--lake", str(lake), "--memory", "512m"]
    command += ["--master", "local[2]"]
    command += [f"--sla={name}={limit.total_seconds()}" for name, limit in SLA.items()]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not any(lake.glob("_pgqueue/staging/*/metrics/**/*.parquet")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()
    ParquetLake.open(lake).settle()
    assert lake_metrics(lake) in ({}, truth)

    rollup(None, ParquetLake.open(lake), SLA)

    assert lake_metrics(lake) == truth
