"""Compares the report's days, or hours, with as many before them. Only those that are over count."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark.report.read import (
    COUNTS,
    SPENT,
    Choice,
    Files,
    channel_rows,
    handler_rows,
    queue_rows,
    read_days,
    read_hours,
    sums,
)

ONE_DAY = timedelta(days=1)
ONE_HOUR = timedelta(hours=1)
WAIT = "wait_p95_seconds"
KEYS = {"queue": ["queue"], "channel": ["queue", "channel"], "handler": ["queue", "handler"]}
ROWS_OF = {"queue": queue_rows, "channel": channel_rows, "handler": handler_rows}
SETTLED = ("completed", "popped", "dead")

# The names that a row is about, such as a queue and a channel.
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Period:
    """Some days, and what happened on them, by day and level. ``rows``: None if the lake has none.

    ``hours``: instead, the hours of these days, and what happened in them, by hour and level.
    """

    days: Sequence[date] = ()
    rows: pa.Table | None = None
    hours: Sequence[datetime] = ()

    def totals(self, level: str) -> dict[Key, dict[str, Any]]:
        """Return the sums of the period by queue, channel or handler.

        ``settled`` is that of messages that a worker or a client took; ``wait_p95_seconds`` that of the worst day or
        hour.
        """
        if self.rows is None:
            return {}
        rows, keys = ROWS_OF[level](self.rows), KEYS[level]
        longest = rows.group_by(keys).aggregate([(WAIT, "max")]).to_pylist()
        waits = {tuple(row[key] for key in keys): row[f"{WAIT}_max"] for row in longest}
        found = {}
        for row in sums(rows, keys, [*COUNTS, *SPENT]):
            key = tuple(row[name] for name in keys)
            found[key] = row | {"settled": sum(row[name] for name in SETTLED), WAIT: waits[key]}
        return found

    def reasons(self) -> dict[str, int]:
        """Return the dead letters by reason."""
        found: dict[str, int] = {}
        if self.rows is not None:
            for reasons in queue_rows(self.rows)["dead_by_reason"].to_pylist():
                for reason, count in dict(reasons or {}).items():
                    found[reason] = found.get(reason, 0) + count
        return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two periods of the same length. Both are empty if the lake has not two whole days or hours."""

    now: Period = field(default_factory=Period)
    before: Period = field(default_factory=Period)

    @property
    def grain(self) -> str:
        return "hour" if self.now.hours else "day"


def read_comparison(files: Files, now: Sequence[date], before: Sequence[date], choice: Choice) -> Comparison:
    """Read what happened in two periods. Raises PipelineError when a file cannot be read."""
    if not now:
        return Comparison()
    return Comparison(*(Period(days, read_days(files, days, choice)) for days in (now, before)))


def read_hours_compared(files: Files, days: Sequence[date], end: datetime, choice: Choice) -> Comparison:
    """Read what happened in the last whole hours of some days before ``end``, and in as many before them.

    Raises PipelineError when a file cannot be read.
    """
    rows = read_hours(files, days, choice)
    if not rows.num_rows:
        return Comparison()
    end = end.replace(minute=0, second=0, microsecond=0)
    length = int((end - min(queue_rows(rows)["bucket_at"].to_pylist(), default=end)) // ONE_HOUR) // 2
    if length < 1:
        return Comparison()
    hours = [end - number * ONE_HOUR for number in range(2 * length, 0, -1)]
    return Comparison(_of_hours(rows, hours[length:]), _of_hours(rows, hours[:length]))


def _of_hours(rows: pa.Table, hours: Sequence[datetime]) -> Period:
    within = pc.is_in(rows["bucket_at"], pa.array(hours, rows["bucket_at"].type))
    return Period(sorted({hour.date() for hour in hours}), rows.filter(within), hours)


def compared_days(
    there: Collection[date], last: date, length: int, against: date | None = None
) -> tuple[list[date], list[date]]:
    """Return the days of two periods of ``length`` days.

    The first ends with ``last``; the second ends with ``against``, or else before the first one begins. Both are
    shorter where the lake's days, ``there``, begin later.
    """
    begin = min((day for day in there if day <= last), default=None)
    if begin is None:
        return [], []
    known = (last - begin).days + 1
    if against is None:
        length = min(length, known // 2)
        against = last - length * ONE_DAY
    else:
        length = max(0, min(length, known, (against - begin).days + 1))
    return _ending(last, length), _ending(against, length)


def _ending(last: date, length: int) -> list[date]:
    return [date.fromordinal(last.toordinal() - number) for number in reversed(range(length))]
