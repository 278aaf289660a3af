"""fire_schedules: run the schedules as the maintenance of a worker does twice a second."""

from __future__ import annotations

from django_pgqueue.maintenance.scheduler import ScheduleCounts, Scheduler
from django_pgqueue.sql.call import alias


def fire_schedules(*, using: str | None = None) -> ScheduleCounts:
    """Bring the declared schedules up to date, and enqueue the messages of those that are due, once.

    A schedule that was never planned is planned first: move the clock, and call it again.
    """
    return Scheduler().run_once(alias(using))
