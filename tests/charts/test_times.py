from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django_pgqueue.charts.times import MOST_TICKS, labels
from tests.support.cases import cases


def buckets(start: datetime, width: timedelta, count: int) -> list[datetime]:
    return [start + width * number for number in range(count)]


def test_the_day_is_named_where_it_changes() -> None:
    hours = buckets(datetime(2026, 11, 20, 17, tzinfo=UTC), timedelta(hours=1), 24)

    found = labels(hours)

    assert [(time, day) for _, time, day in found if day] == [("18:00", "20 Nov"), ("00:00", "21 Nov")]
    assert [hours[index].hour for index, _, _ in found] == [18, 21, 0, 3, 6, 9, 12, 15]


def test_days_have_no_time_and_the_year_where_there_are_two() -> None:
    found = labels(buckets(datetime(2026, 12, 1, tzinfo=UTC), timedelta(days=1), 60))

    assert {time for _, time, _ in found} == {""}
    assert all(day.endswith((" 26", " 27")) for _, _, day in found)


@cases("width", [timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)])
@cases("count", [1, 2, 7, 60, 360, 1000])
def test_there_are_a_few_ticks(width: timedelta, count: int) -> None:
    found = labels(buckets(datetime(2026, 11, 20, 0 if width.days else 17, tzinfo=UTC), width, count))

    assert len(found) <= MOST_TICKS + 1
    assert found or count < 7


def test_no_buckets_have_no_labels() -> None:
    assert labels([]) == []
