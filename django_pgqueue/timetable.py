"""Compute when a schedule is due, by pure functions of its definition and a moment. Nothing here reads a clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from django_pgqueue.exceptions import InvalidSchedule

SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=3660)
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# Any moment does: whether an expression ever matches does not depend on it.
SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Timetable:
    """Define ticks by a cron expression and the wall clock of ``time_zone``, or by an interval ``every``. Moments are
    in UTC.

    Where clocks are put forward, a time that is skipped happens at the end of the gap; where they are put back, a time
    that happens twice counts the first time. Expressions with a star for the minute or the hour go by elapsed time.
    """

    cron: str | None = None
    every: timedelta | None = None
    time_zone: str = "UTC"

    def check(self) -> None:
        """Raise InvalidSchedule if the definition is wrong; ``field`` of the error names the part."""
        if (self.cron is None) == (self.every is None):
            raise InvalidSchedule("give a cron expression or an interval, one of them", field="cron")
        time_zone_of(self.time_zone)
        if self.cron is not None:
            self.after(SOME_DAY)
        elif self.every is not None and not SHORTEST <= self.every <= LONGEST:
            raise InvalidSchedule("the interval is not between a second and ten years", field="every")

    def after(self, moment: datetime, *, tick: datetime | None = None) -> datetime:
        """Return the first tick after ``moment``. ``tick``: a known one, from which intervals are counted.

        Raises InvalidSchedule for a cron expression that is wrong or never matches.
        """
        if self.every is not None:
            start = tick or moment.replace(microsecond=0)
            return (start + self.every * max(1, (moment - start) // self.every + 1)).astimezone(UTC)
        for found in self._matches(moment):
            return found
        raise InvalidSchedule(f"the cron expression {self.cron!r} never matches a date", field="cron")

    def passed(self, tick: datetime, moment: datetime, most: int) -> list[datetime]:
        """Return the ticks from ``tick`` (which is one) to ``moment``, oldest first; at most the ``most`` newest."""
        if self.every is not None:
            count = (moment - tick) // self.every + 1
            return [(tick + self.every * n).astimezone(UTC) for n in range(max(0, count - most), count)]
        # Search from the end, in growing steps back: after a long outage there may be millions of ticks.
        back = timedelta(minutes=most)
        while (start := moment - back) > tick:
            found = deque(self._until(start, moment), maxlen=most)
            if len(found) == most:
                return list(found)
            back *= 4
        return list(deque([tick.astimezone(UTC), *self._until(tick, moment)], maxlen=most))

    def upcoming(self, moment: datetime, count: int, *, tick: datetime | None = None) -> list[datetime]:
        """Return the next ``count`` ticks, the known ``tick`` first if it is given."""
        if self.every is not None:
            first = tick or self.after(moment)
            times = ((first + self.every * n).astimezone(UTC) for n in range(count))
            return list(representable_times(times))
        start = [tick.astimezone(UTC)] if tick else []
        return [*start, *islice(self._matches(tick or moment), count - len(start))]

    def _until(self, start: datetime, end: datetime) -> Iterator[datetime]:
        for found in self._matches(start):
            if found > end:
                return
            yield found

    def _matches(self, moment: datetime) -> Iterator[datetime]:
        cron = self.cron or ""
        expression = MACROS.get(cron.strip().lower(), cron)
        try:
            matches = CronSim(expression, moment.astimezone(time_zone_of(self.time_zone)))
        except (CronSimError, ValueError) as error:
            raise InvalidSchedule(f"the cron expression {self.cron!r} is wrong: {error}", field="cron") from error
        last = moment
        for found in representable_times(matches):
            # In an hour that happens twice, cronsim may begin before the moment. In UTC: two datetimes of one zone
            # would be compared by the wall clock.
            if (utc := found.astimezone(UTC)) > last:
                last = utc
                yield utc


def representable_times(times: Iterator[datetime]) -> Iterator[datetime]:
    """Yield the times up to the end of the year 9999, where Python has no more."""
    with suppress(OverflowError):
        yield from times


def time_zone_of(name: str) -> ZoneInfo:
    """Return the time zone of this name. Raises InvalidSchedule if there is none."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidSchedule(
            f"there is no time zone {name!r}", field="time_zone", hint="Write it as Europe/Berlin or UTC."
        ) from error
