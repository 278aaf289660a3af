"""Runs of a rollup: interrupted, killed, with few messages, and what they keep."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark.arguments import sla
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.schema import arrow_schema
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.rollup import (
    FEW_MESSAGES,
    Rolled,
    Touched,
    batches,
    find_touched,
    is_small,
    rollup,
)
from tests.spark.rolling import SLA, SLA_JSON, Roll, fill_mixed
from tests.spark.rows import DAY, fill_archive
from tests.spark.truth import expected_metrics, lake_metrics
from tests.support.sessions import Session as Database


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


def test_only_few_messages_are_computed_without_spark() -> None:
    yesterday, noon = DAY - timedelta(days=1), datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=UTC)

    def is_small_with(**messages: int) -> bool:
        # Messages of today were created yesterday.
        created = {"today": (noon - timedelta(days=1),) * 2, "yesterday": (noon - timedelta(days=1),) * 2}
        days = {"today": DAY, "yesterday": yesterday}
        files = [LakeFile("archive", f"day={days[day]}", "1", n, 1, created[day]) for day, n in messages.items()]
        return is_small(Touched({}, {yesterday}, files))

    assert is_small_with(today=FEW_MESSAGES - 1, yesterday=1)
    assert not is_small_with(today=FEW_MESSAGES, yesterday=1)


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
    assert lake_metrics(lake) in ({}, truth)

    rollup(None, Lake.open(lake), SLA)

    assert lake_metrics(lake) == truth


FIRST, SECOND, THIRD, FOURTH = (date(2026, 3, day) for day in (1, 2, 3, 4))


def put(lake: Lake, settled: date, *created: date, table: str = "archive", replace: bool = False) -> None:
    with lake.writing() as writing:
        path = writing.stage(table, f"day={settled}")
        rows = [{"id": 1, "created_at": datetime(day.year, day.month, day.day, 12, tzinfo=UTC)} for day in created]
        pq.write_table(pa.Table.from_pylist(rows, arrow_schema(table)), path)
        old = lake.files(table, [settled]) if replace else []
        writing.commit(table, "export", [writing.staged(path)], old)


def roll(lake: Lake) -> set[date]:
    """As a rollup does, without the metrics."""
    touched = find_touched(lake)
    days = {*touched.days}
    touched.days.clear()
    with lake.writing() as writing:
        writing.commit("metrics", "rollup", state=touched.state())
    return days


@pytest.fixture
def opened(lake: Path) -> Lake:
    return Lake.open(lake, create=True)


def test_the_days_on_which_new_messages_were_settled_or_created_are_touched(opened: Lake) -> None:
    put(opened, SECOND, SECOND)
    put(opened, THIRD, FIRST, THIRD, table="dead_letter")

    assert roll(opened) == {FIRST, SECOND, THIRD}
    assert roll(opened) == set()


def test_a_day_that_was_written_anew_touches_all_on_which_its_messages_were_created(opened: Lake) -> None:
    put(opened, THIRD, FIRST, THIRD)
    roll(opened)
    put(opened, THIRD, THIRD, replace=True)

    assert roll(opened) == {FIRST, THIRD}


def test_an_hour_that_a_killed_rollup_left_is_touched_again(opened: Lake) -> None:
    put(opened, FIRST, FIRST)
    put(opened, SECOND, SECOND)
    touched = find_touched(opened)
    touched.days -= {SECOND}
    with opened.writing() as writing:
        writing.commit("metrics", "rollup", state=touched.state())
    put(opened, THIRD, THIRD)

    assert roll(opened) == {FIRST, THIRD}


def test_messages_are_looked_for_on_all_days_on_which_they_were_settled(opened: Lake) -> None:
    put(opened, THIRD, FIRST, THIRD)
    put(opened, FOURTH, FIRST)
    put(opened, SECOND, THIRD)
    roll(opened)

    touched = find_touched(opened)
    assert touched.settled_on([FIRST]) == {FIRST, THIRD, FOURTH}
    # Created after it was settled: the clock was set back.
    assert touched.settled_on([THIRD]) == {THIRD, SECOND}


def test_days_are_computed_together_up_to_a_number_of_messages() -> None:
    days = [FOURTH, THIRD, SECOND, FIRST]

    assert list(batches(days, {FOURTH: 5, THIRD: 5, SECOND: 11, FIRST: 1}, most=10)) == [
        [FOURTH, THIRD],
        [SECOND],
        [FIRST],
    ]
    assert list(batches([], {}, most=10)) == []


def test_without_the_log_of_earlier_versions_all_days_are_computed(opened: Lake) -> None:
    put(opened, FIRST, FIRST)
    roll(opened)
    put(opened, FOURTH, SECOND)
    delta = opened.delta("archive")
    delta.create_checkpoint()
    for version in (0, 1, 2):
        (opened.path / "archive" / "_delta_log" / f"{version:020}.json").unlink()

    assert find_touched(opened).days == {FIRST, SECOND, FOURTH}


def test_a_promise_may_be_made_for_any_name() -> None:
    promises = ["default=30s", "a=b/c=1.5m", "d=250ms", "e= 7", "f=2h", "g=1d", "default=31.0"]
    assert dict(map(sla, promises)) == {
        "default": timedelta(seconds=31),
        "a=b/c": timedelta(seconds=90),
        "d": timedelta(milliseconds=250),
        "e": timedelta(seconds=7),
        "f": timedelta(hours=2),
        "g": timedelta(days=1),
    }
