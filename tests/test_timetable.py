"""When schedules are due: pure, so that both changes of the clocks, leap years and long outages are a line each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from django_pgqueue.exceptions import InvalidSchedule
from django_pgqueue.timetable import Timetable
from tests.support.cases import cases

BERLIN = ZoneInfo("Europe/Berlin")
# Clocks go from 02:00 to 03:00, and from 03:00 back to 02:00.
SPRING = datetime(2026, 3, 29, 0, 45, tzinfo=BERLIN)
AUTUMN = datetime(2026, 10, 25, 0, 45, tzinfo=BERLIN)


def shown(moments: list[datetime]) -> list[str]:
    """By Berlin's wall clock, with the offset in hours."""
    assert all(moment.tzinfo is UTC for moment in moments)
    local = [moment.astimezone(BERLIN) for moment in moments]
    return [f"{moment:%d %H:%M}+{moment.utcoffset() // timedelta(hours=1)}" for moment in local]


def berlin(cron: str) -> Timetable:
    return Timetable(cron=cron, time_zone="Europe/Berlin")


def test_a_daily_time_follows_the_wall_clock_through_the_year():
    table = berlin("30 8 * * *")

    assert table.after(datetime(2026, 1, 5, 12, tzinfo=UTC)) == datetime(2026, 1, 6, 7, 30, tzinfo=UTC)
    assert table.after(datetime(2026, 7, 5, 12, tzinfo=UTC)) == datetime(2026, 7, 6, 6, 30, tzinfo=UTC)


@cases(
    ("cron", "ticks"),
    [
        ("30 2 * * *", ["29 03:00+2", "30 02:30+2", "31 02:30+2"]),
        ("15,45 2 * * *", ["29 03:00+2", "30 02:15+2", "30 02:45+2"]),
        ("30 1-3 * * *", ["29 01:30+1", "29 03:00+2", "29 03:30+2"]),
        ("0 3 * * *", ["29 03:00+2", "30 03:00+2", "31 03:00+2"]),
        ("0 * * * *", ["29 01:00+1", "29 03:00+2", "29 04:00+2"]),
        ("*/30 2 * * *", ["30 02:00+2", "30 02:30+2", "31 02:00+2"]),
    ],
)
def test_an_hour_that_is_skipped(cron: str, ticks: list[str]):
    """A fixed time in it fires at its end, once. A star follows elapsed time."""
    assert shown(berlin(cron).upcoming(SPRING, 3)) == ticks


@cases(
    ("cron", "ticks"),
    [
        ("30 2 * * *", ["25 02:30+2", "26 02:30+1", "27 02:30+1"]),
        ("0 3 * * *", ["25 03:00+1", "26 03:00+1", "27 03:00+1"]),
        ("0 * * * *", ["25 01:00+2", "25 02:00+2", "25 02:00+1"]),
        ("*/30 2 * * *", ["25 02:00+2", "25 02:30+2", "25 02:00+1"]),
    ],
)
def test_an_hour_that_comes_twice(cron: str, ticks: list[str]):
    """A fixed time in it fires the first time, once. A star follows elapsed time."""
    assert shown(berlin(cron).upcoming(AUTUMN, 3)) == ticks


@cases("cron", ["30 2 * * *", "*/30 * * * *", "15,45 2 * * *", "30 1-3 * * *", "0 */2 * * *"])
@cases("start", [SPRING, AUTUMN])
def test_where_one_begins_to_look_changes_no_tick(cron: str, start: datetime):
    """Each worker begins at another moment, inside of the hours that are skipped or come twice as well."""
    begin = start.astimezone(UTC)
    every = berlin(cron).upcoming(begin, 200)
    for minutes in range(1, 300):
        moment = begin + timedelta(minutes=minutes, seconds=11)
        assert berlin(cron).after(moment) == next(tick for tick in every if tick > moment)


def test_seconds_macros_and_names_are_understood():
    moment = datetime(2026, 11, 21, 12, 0, 3, tzinfo=UTC)

    assert Timetable(cron="*/20 * * * * *").after(moment) == moment.replace(second=20)
    assert Timetable(cron="@Daily ").after(moment) == datetime(2026, 11, 22, tzinfo=UTC)
    assert Timetable(cron="0 9 * jan MON#1").after(moment) == datetime(2027, 1, 4, 9, tzinfo=UTC)
    assert Timetable(cron="0 0 29 2 *").after(moment) == datetime(2028, 2, 29, tzinfo=UTC)


def test_a_tick_is_strictly_later():
    on_the_minute = datetime(2026, 11, 21, 12, tzinfo=UTC)

    assert Timetable(cron="* * * * *").after(on_the_minute) == on_the_minute + timedelta(minutes=1)
    assert Timetable(cron="* * * * *").after(on_the_minute - timedelta(microseconds=1)) == on_the_minute
    hourly = Timetable(every=timedelta(hours=1))
    assert hourly.after(on_the_minute, tick=on_the_minute) == on_the_minute + timedelta(hours=1)


def test_an_interval_is_counted_from_a_tick_and_does_not_drift():
    tick = datetime(2026, 11, 21, 12, tzinfo=UTC)
    table = Timetable(every=timedelta(seconds=90))

    late = tick + timedelta(seconds=200, microseconds=17)
    assert table.after(late, tick=tick) == tick + timedelta(seconds=270)
    assert table.passed(tick, late, 10) == [tick + timedelta(seconds=90 * n) for n in range(3)]
    assert table.passed(tick, late, 2) == [tick + timedelta(seconds=90 * n) for n in (1, 2)]
    assert table.upcoming(late, 2, tick=tick) == [tick, tick + timedelta(seconds=90)]


def test_the_newest_ticks_of_an_outage_are_found_without_walking_all_of_it():
    now = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
    long_ago = now.replace(year=1990, second=0)

    assert Timetable(cron="* * * * *").passed(long_ago, now, 3) == [
        now.replace(second=0) - timedelta(minutes=n) for n in (2, 1, 0)
    ]
    assert Timetable(every=timedelta(seconds=1)).passed(long_ago, now, 1) == [now]
    yearly = Timetable(cron="@yearly").passed(datetime(2024, 1, 1, tzinfo=UTC), now, 9)
    assert [tick.year for tick in yearly] == [2024, 2025, 2026]


@cases(
    ("table", "field", "problem"),
    [
        (Timetable(cron="5 * * *"), "cron", "Wrong number of fields"),
        (Timetable(cron="61 * * * *"), "cron", "Bad minute"),
        (Timetable(cron="0 0 30 2 *"), "cron", "Bad day-of-month"),
        (Timetable(cron="@often"), "cron", "Wrong number"),
        (Timetable(cron="* * * * *", time_zone="Berlin"), "time_zone", "no time zone 'Berlin'"),
        (Timetable(cron="* * * * *", time_zone="../etc"), "time_zone", "no time zone"),
        (Timetable(every=timedelta(milliseconds=10)), "every", "between a second and ten years"),
        (Timetable(every=timedelta(days=99_999)), "every", "between a second and ten years"),
        (Timetable(), "cron", "one of them"),
        (Timetable(cron="* * * * *", every=timedelta(hours=1)), "cron", "one of them"),
    ],
)
def test_the_field_that_is_wrong_is_named(table: Timetable, field: str, problem: str):
    with pytest.raises(InvalidSchedule, match=problem) as raised:
        table.check()
    assert raised.value.field == field
