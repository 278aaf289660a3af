"""Rollups: every number of every row is the one that PostgreSQL computes from the archive itself."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.load import COLUMNS
from django_pgqueue.spark.schema import arrow_schema
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.buckets import day_metrics
from django_pgqueue.spark.transforms.messages import read_messages
from tests.spark.rolling import SLA_JSON, Roll, fill_mixed, rolling
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.truth import by_key, expected_metrics, lake_metrics
from tests.support.sessions import Session as Database


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


def test_errors_that_no_worker_writes_count_as_unknown(source: Source, database: Database, lake: Path) -> None:
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
    export(source, lake)
    rolling(None)(lake)

    [day] = [row for key, row in lake_metrics(lake).items() if key[0] == "day" and row["level"] == "queue"]
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


NASTY = 'a/b=c,"d"\t\\\n%20é\'; -- {x} $1'


@pytest.fixture(autouse=True)
def no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGQUEUE_SOURCE", raising=False)


def test_metrics_reach_lake_and_database_whatever_the_names_are(
    source: Source, database: Database, dsn: str, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day = database.execute("SELECT (now() AT TIME ZONE 'UTC')::date - 1").fetchone()[0]
    nasty = "'" + NASTY.replace("'", "''") + "'"
    fill_archive(database, 30, day=day, queue=nasty, channel=nasty, handler=f"{nasty} || i % 2")
    fill_dead_letters(database, 10, day=day, queue=nasty, channel=nasty, reason=nasty)
    fill_archive(database, 10, day=day, channel="''")
    export(source, lake)

    status = main(["rollup", "--lake", str(lake), "--source", dsn, "--sla", f"{NASTY}/{NASTY}=2500ms"])

    output = capsys.readouterr()
    assert status == 0, output.err
    truth = expected_metrics(database, json.dumps({f"{NASTY}/{NASTY}": 2.5}))
    assert lake_metrics(lake) == truth
    loaded = by_key(database.execute(f"SELECT {', '.join(COLUMNS)} FROM pgqueue_queue_metric").fetchall())
    assert loaded == {key: row for key, row in truth.items() if key[0] != "minute"}


def test_an_empty_lake_is_no_error(source: Source, dsn: str, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(source, lake)

    assert main(["rollup", "--lake", str(lake), "--source", dsn]) == 0
    assert main(["rollup", "--lake", str(lake)]) == 0

    assert "Nothing is new since the last rollup." in capsys.readouterr().out
    assert lake_metrics(lake) == {}


def test_a_damaged_file_is_named_and_nothing_changes(
    source: Source, database: Database, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_archive(database, 30)
    export(source, lake)
    [path] = lake.glob("archive/*/*.parquet")
    content = path.read_bytes()
    path.write_bytes(b"\0" * 100 + content[100:-100] + b"\0" * 100)
    before = Lake.open(lake).versions

    status = main(["rollup", "--lake", str(lake)])

    [line] = capsys.readouterr().err.splitlines()
    assert status == 1
    assert line.startswith(f"{path} cannot be read")
    assert Lake.open(lake).versions == before


def test_metrics_of_another_database_are_not_loaded(
    source: Source, database: Database, dsn: str, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(source, lake)
    other = psycopg.conninfo.make_conninfo(dsn, dbname="postgres")

    assert main(["rollup", "--lake", str(lake), "--source", other]) == 1

    assert "holds another database" in capsys.readouterr().err
