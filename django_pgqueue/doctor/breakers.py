"""Find breakers that are open."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django_pgqueue.doctor.finding import SHOWN_NAMES, Finding, Limits, Severity, age_text, list_text
from django_pgqueue.lifecycle.breakers import MOST_WAITING, BreakerState, breakers
from django_pgqueue.sql.call import call

LONG = timedelta(minutes=10)
"""An outage that takes longer is a warning; before that it is a note."""


def examine_breakers(using: str, limits: Limits) -> Iterator[Finding]:
    """Report open breakers in one finding."""
    found = [row for row in breakers(most=limits.most, using=using) if row.is_open]
    if found:
        [(now,)] = call(using, "SELECT clock_timestamp()")
        since = min(row.opened_at for row in found if row.opened_at is not None)
        yield report_open_breakers(found, now - since)


def report_open_breakers(found: list[BreakerState], age: timedelta) -> Finding:
    """Report the breakers that are open. ``age``: how long the first of them has been open."""
    least = "At least " if any(row.waiting >= MOST_WAITING for row in found) else ""
    return Finding(
        "breaker_open",
        Severity.WARNING if age > LONG else Severity.NOTE,
        f"{len(found)} breaker(s) are open, the longest for {age_text(age)}: "
        f"{list_text([row.name() for row in found])}. {least}{sum(row.waiting for row in found):,} message(s) wait for "
        "them.",
        "Look at the errors of these handlers, and at what they call. A breaker closes when a message that tries is "
        "completed; manage.py pgqueue close breaker HANDLER closes it now.",
        {
            "breakers": [row.name() for row in found[:SHOWN_NAMES]],
            "seconds": age.total_seconds(),
            "waiting": sum(row.waiting for row in found),
        },
    )
