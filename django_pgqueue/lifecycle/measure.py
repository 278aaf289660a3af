"""measure: the figures of the dashboard, kept up to date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.arguments import duration
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT settled, dead, counted FROM pgqueue_measure(%s::interval)"


@dataclass(frozen=True, slots=True)
class MeasureCounts:
    """Messages that were settled since the last measurement, those of them that died, and whether the backlog was
    counted."""

    settled: int
    dead: int
    counted: bool


def measure(every: timedelta | None = None, *, using: str | None = None) -> MeasureCounts:
    """Measure, unless somebody has within ``every`` (default: the setting MEASURE_INTERVAL); zero: in any case. Safe to
    run from many places at once. In a transaction that has written, what is settled waits for the next time."""
    every = settings.MEASURE_INTERVAL if every is None else duration(every, "every")
    return MeasureCounts(*call(alias(using), SQL, (every,))[0])
