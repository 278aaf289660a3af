"""Runs of a rollup: interrupted, killed, with few messages, and what they keep."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.rollup import FEW_MESSAGES, Rolled, Touched, is_small, rollup
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
