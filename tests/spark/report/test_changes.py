"""The comparison with the days before: each sentence has its number, and names the largest change."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.report.compare import compared_days
from django_pgqueue.spark.report.sections.changes import compared_text
from tests.spark.report.metrics import lake_of, metric, of_each_grain
from tests.spark.report.page import Page, reported
from tests.spark.report.test_report import HOSTILE, NOON
from tests.support.cases import cases

DAYS = [NOON - timedelta(days=number) for number in (3, 2, 1, 0)]


def day_of_queue(at: datetime, channels: dict[str, dict[str, Any]], **columns: Any) -> list[dict[str, Any]]:
    """The rows of one day of the queue mail: its own, those of its channels, and those of a handler in each."""
    counts = {
        name: sum(row.get(name, 0) for row in channels.values()) for name in ("completed", "dead", "retry_seconds")
    }
    rows = [metric(at, "mail", **counts, **columns)]
    for name, values in channels.items():
        rows += [metric(at, "mail", name, **values), metric(at, "mail", name, "shop.confirm", **values)]
    return rows


def sentences(page: Page) -> str:
    return page.text.partition("What changed")[2].partition("What changed")[2].partition("Top movers")[0]


@pytest.fixture
def two_days_after_two(tmp_path: Path) -> Path:
    """acme grows from 100 to 400 messages, and waits; bolt shrinks; crow is new."""
    before = {"acme": {"completed": 50, "wait_p95_seconds": 1.0}, "bolt": {"completed": 100, "wait_p95_seconds": 5.0}}
    now = {
        "acme": {"completed": 180, "dead": 20, "retry_seconds": 30.0, "wait_p95_seconds": 4.0},
        "bolt": {"completed": 40, "wait_p95_seconds": 2.0},
        "crow": {"completed": 5},
    }
    rows = []
    for at in DAYS[:2]:
        rows += day_of_queue(at, before, run_seconds=100.0, wait_p95_seconds=2.0)
    for at in DAYS[2:]:
        rows += day_of_queue(at, now, run_seconds=150.0, wait_p95_seconds=3.0, dead_by_reason={"failed": 20})
    lake_of(tmp_path / "lake", of_each_grain(*rows))
    return tmp_path / "lake"


def test_each_sentence_has_its_number(two_days_after_two: Path) -> None:
    page = reported(two_days_after_two)

    found = sentences(page)
    for expected in (
        "20 Nov 2026 – 21 Nov 2026, compared with 18 Nov 2026 – 19 Nov 2026; days that are over.",
        "490 messages were settled: 63 % more than before (300).",
        "8.2 % of them died: 40 dead letters, before 0 % (0).",
        "Handlers ran for 5 min: 50 % more than before (3.33 min).",
        "Failed attempts took 60 s: none before.",
        "The queue mail waited longer: p95 of the worst day 3 s, before 2 s.",
        "The channel mail / acme waited longer: p95 of the worst day 4 s, before 1 s.",
        "The channel mail / bolt waited less: p95 of the worst day 2 s, before 5 s.",
        "The channel mail / acme grew most: 400 messages, 4.0 times as many as before (100).",
        "The channel mail / bolt shrank most: 80 messages, 60 % fewer than before (200).",
        "New channels: 1. mail / crow had the most messages, 10.",
        "Failures of the handler mail / shop.confirm cost more than before: 60 s, before 0.",
        "The reason failed made more dead letters than before: 40, before 0.",
    ):
        assert expected in found, found


def test_the_channels_that_changed_most_come_first(two_days_after_two: Path) -> None:
    assert reported(two_days_after_two).tables["Top movers"][1:] == [
        ["mail", "acme", "+300", "400", "100", "40", "0", "4 s", "1 s"],
        ["mail", "bolt", "−120", "80", "200", "0", "0", "2 s", "5 s"],
        ["mail", "crow", "+10", "10", "0", "0", "0", "–", "–"],
    ]


def test_the_days_to_compare_with_may_be_chosen(two_days_after_two: Path) -> None:
    page = reported(two_days_after_two, days=1, until=DAYS[2].date(), against=DAYS[0].date())

    assert "20 Nov 2026, compared with 18 Nov 2026; days that are over." in page.text
    assert "245 messages were settled: 63 % more than before (150)." in page.text


def test_a_day_that_is_not_over_is_not_compared(two_days_after_two: Path) -> None:
    with Lake.open(two_days_after_two).writing() as writing:
        writing.commit("archive", "export", state={"exported_at": (NOON + timedelta(hours=1)).isoformat()})

    page = reported(two_days_after_two, days=1)

    assert "20 Nov 2026, compared with 19 Nov 2026; days that are over." in page.text


def exported_at(lake: Path, at: datetime) -> None:
    with Lake.open(lake).writing() as writing:
        writing.commit("archive", "export", state={"exported_at": at.isoformat()})


def test_a_lake_of_one_hour_has_nothing_to_compare(tmp_path: Path) -> None:
    lake_of(tmp_path / "lake", of_each_grain(metric(NOON, completed=1)))
    exported_at(tmp_path / "lake", NOON + timedelta(minutes=119))

    assert "A comparison needs metrics of two whole hours." in reported(tmp_path / "lake").text


def test_a_lake_of_some_hours_compares_hours(tmp_path: Path) -> None:
    """The last hour is not over, and the first one has none to be compared with."""
    counts = {11: 5000, 12: 1000, 13: 10, 14: 10, 15: 40, 16: 7000}
    day = day_of_queue(NOON.replace(hour=0), {"acme": {"completed": sum(counts.values())}})
    rows = [row | {"grain": "day"} for row in day]
    for hour, completed in counts.items():
        values = {"completed": completed, "wait_p95_seconds": hour / 10}
        for row in day_of_queue(NOON.replace(hour=hour), {"acme": values}, wait_p95_seconds=hour / 10):
            rows.append(row | {"grain": "hour"})
    lake_of(tmp_path / "lake", rows)
    exported_at(tmp_path / "lake", NOON.replace(hour=16, minute=30))

    page = reported(tmp_path / "lake")

    assert "21 Nov 2026 14:00 – 16:00, compared with 21 Nov 2026 12:00 – 14:00; hours that are over." in page.text
    assert "50 messages were settled: 95 % fewer than before (1,010)." in page.text
    assert "The channel mail / acme waited longer: p95 of the worst hour 1.5 s, before 1.3 s." in page.text
    assert page.tables["Top movers"][0][-2:] == ["Wait p95, worst hour", "Before"]
    assert page.tables["Top movers"][1][:5] == ["mail", "acme", "−960", "50", "1,010"]
    assert "A comparison" in reported(tmp_path / "lake", against=NOON.date()).text


def test_hours_after_the_last_day_of_the_report_are_not_compared(tmp_path: Path) -> None:
    """The lake goes on, but the report ends with the only day that has metrics."""
    rows = of_each_grain(*(metric(NOON.replace(hour=hour), completed=hour) for hour in (20, 21, 22, 23)))
    lake_of(tmp_path / "lake", [row for row in rows if row["grain"] != "day" or row["completed"] == 23])
    exported_at(tmp_path / "lake", NOON.replace(hour=6) + timedelta(days=1))

    page = reported(tmp_path / "lake", until=NOON.date())

    assert "21 Nov 2026 22:00 – 00:00, compared with 21 Nov 2026 20:00 – 22:00" in page.text


def test_hostile_names_are_text_in_sentences(tmp_path: Path) -> None:
    rows = []
    for at, count in zip(DAYS, (1, 1, 9, 9), strict=True):
        rows += day_of_queue(at, {HOSTILE: {"completed": count}})
    lake_of(tmp_path / "lake", of_each_grain(*rows))

    page = reported(tmp_path / "lake")

    assert not page.tags & {"script", "img"}
    assert f"The channel mail / {HOSTILE} grew most" in page.text


@cases(
    ("days", "against", "now", "before"),
    [
        (2, None, [20, 21], [18, 19]),
        (7, None, [18, 19, 20, 21], [14, 15, 16, 17]),  # the lake begins on the 14th
        (3, date(2026, 11, 16), [19, 20, 21], [14, 15, 16]),
        (7, date(2026, 11, 15), [20, 21], [14, 15]),
        (7, date(2026, 11, 1), [], []),
    ],
)
def test_both_periods_are_whole_and_as_long_as_each_other(
    days: int, against: date | None, now: list[int], before: list[int]
) -> None:
    there = {date(2026, 11, number) for number in (14, 17, 20, 21)}

    found = compared_days(there, date(2026, 11, 21), days, against)

    assert [[day.day for day in period] for period in found] == [now, before]


@cases(
    ("now", "before", "text"),
    [
        (0, 0, "as before"),
        (3, 0, "none before"),
        (1000, 1001, "as many as before (1,001)"),
        (110, 100, "10 % more than before (100)"),
        (90, 100, "10 % fewer than before (100)"),
        (0, 100, "100 % fewer than before (100)"),
        (350, 100, "3.5 times as many as before (100)"),
    ],
)
def test_a_difference_is_said_with_the_earlier_value(now: int, before: int, text: str) -> None:
    assert compared_text(now, before) == text
