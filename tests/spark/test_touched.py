"""Which days a rollup computes, and in which portions. No Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark.arguments import sla
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.schema import arrow_schema
from django_pgqueue.spark.transforms.rollup import batches, find_touched

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
