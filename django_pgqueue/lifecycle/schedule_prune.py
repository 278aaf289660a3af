"""schedule_prune: delete old ticks of schedules, and schedules that the code no longer declares."""

from __future__ import annotations

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def schedule_prune(*, using: str | None = None) -> int:
    """Delete ticks and undeclared schedules that are older than the setting SCHEDULE_RETENTION. Returns the number of
    ticks."""
    ticks: int
    [(ticks,)] = call(alias(using), "SELECT pgqueue_schedule_prune(%s::interval)", (settings.SCHEDULE_RETENTION,))
    return ticks
