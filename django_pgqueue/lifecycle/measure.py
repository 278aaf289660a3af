"""measure: update the figures of the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.arguments import checked_duration
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT settled, dead, counted FROM pgqueue_measure(%s::interval)"


@dataclass(frozen=True, slots=True)
class MeasureCounts:
    """Count the messages that were settled since the last measurement, and those of them that died. ``counted``:
    whether the backlog was counted."""

    settled: int
    dead: int
    counted: bool


def measure(every: timedelta | None = None, *, using: str | None = None) -> MeasureCounts:
    """Update the figures of the dashboard, unless another call did so within ``every``.

    ``every``: a timedelta; default: the setting MEASURE_INTERVAL; zero measures in any case. ``using``: database alias;
    default: the queue's. Many processes may call it at once. In a transaction that has already written, the settled
    messages are left to the next measurement.
    """
    every = settings.MEASURE_INTERVAL if every is None else checked_duration(every, "every")
    return MeasureCounts(*call(alias(using), SQL, (every,))[0])
