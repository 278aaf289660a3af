"""Read and write rates in words: ``10/m`` or ``5/s burst 20``, for a release interval and a burst."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import NamedTuple

from django_pgqueue.exceptions import InvalidMessage

UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
FORM = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{0,9})\s*([smhd])(?:\s+burst\s+(\d{1,9}))?\s*", re.ASCII)
HINT = 'Write how many, a slash and a time, such as "10/m", "1/30s" or "5/s burst 20"; the units are s, m, h and d.'


class Rate(NamedTuple):
    """Hold a rate. ``interval``: the time from one delivery to the next. ``burst``: the deliveries at once after a
    quiet time."""

    interval: timedelta
    burst: int


def parse_rate(text: str) -> Rate:
    """Read a rate: ``10/m`` is one delivery in 6 seconds, ``5/s burst 20`` one in 200 ms and up to 20 at once.

    Without ``burst`` it is 1: the deliveries are spread evenly. Raises InvalidMessage.
    """
    found = FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidMessage(f"rate is {text!r}, which is no rate", hint=HINT)
    count, times, unit, burst = found.groups()
    most, span, at_once = int(count), int(times or 1) * UNITS[unit], int(burst or 1)
    if not (most and span and at_once):
        raise InvalidMessage(f"rate is {text!r}: its numbers must be at least 1", hint="Pause the channel instead.")
    interval = span / most
    if not interval:
        raise InvalidMessage(f"rate is {text!r}, more than 1,000,000 in a second", hint="Lift the limit with None.")
    return Rate(interval, at_once)


def rate_text(interval: timedelta | None, burst: int) -> str | None:
    """Return a release interval and a burst as a rate in words, as parse_rate reads them; None without an interval."""
    if interval is None:
        return None
    text = f"1 per {interval}"
    for unit, span in UNITS.items():
        times, seconds = span / interval, interval / span
        if times >= 1 and span / round(times) == interval:
            text = f"{round(times)}/{unit}"
            break
        if seconds == round(seconds):
            text = f"1/{round(seconds)}{unit}"
    return text if burst == 1 else f"{text} burst {burst}"
