"""Label the axis of time: round ticks, and labels that name the day only where it changes, in UTC as the buckets
are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

MINUTE, HOUR, DAY = 60, 3600, 86400
STEPS = [
    *(minutes * MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * DAY for days in (1, 2, 5, 7, 14, 30, 60, 90, 180, 365, 730, 3650)),
]
MOST_TICKS = 9


def bucket_label(time: datetime, width: timedelta) -> str:
    """Return a bucket's name: its day, with the time of day if it is shorter than a day."""
    return f"{time:%d %b %Y}" if width >= timedelta(days=1) else f"{time:%d %b %Y %H:%M}"


def labels(times: Sequence[datetime]) -> list[tuple[int, str, str]]:
    """Return the ticks: index of the bucket, time of day ('' if buckets are days), day ('' if it is that of the tick
    before)."""
    if not times:
        return []
    seconds = [int(time.timestamp()) for time in times]
    wanted = (seconds[-1] - seconds[0]) / MOST_TICKS
    step = next((step for step in STEPS if step >= wanted), STEPS[-1])
    # Days are counted from the first midnight, times of day from midnight.
    start = -(-seconds[0] // DAY) * DAY if step >= DAY else 0
    found, day = [], ""
    for index, second in enumerate(seconds):
        if (second - start) % step and len(seconds) > 1:
            continue
        time = datetime.fromtimestamp(second, UTC)
        date = f"{time:%d %b}" if times[-1].year == times[0].year else f"{time:%d %b %y}"
        found.append((index, "" if step >= DAY else f"{time:%H:%M}", "" if date == day else date))
        day = date
    return found
