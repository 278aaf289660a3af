"""Name days in few words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta

ONE_DAY = timedelta(days=1)


def day_ranges(days: Iterable[date]) -> Iterator[str]:
    """Yield each unbroken row of days, which are in order, as ``2026-11-21`` or ``2026-11-21 to 2026-11-25``."""
    row: list[date] = []
    for day in days:
        if row and day - row[-1] > ONE_DAY:
            yield _text(row)
            row = []
        row = [row[0] if row else day, day]
    if row:
        yield _text(row)


def _text(row: list[date]) -> str:
    return f"{row[0]}" if row[0] == row[-1] else f"{row[0]} to {row[-1]}"
