"""sweep: give back messages whose leases have expired."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.arguments import checked_whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = """
SELECT retried, poisoned, cancelled, promoted, not_picked_up, resumed FROM pgqueue_sweep(%s::integer, %s::interval)
"""


@dataclass(frozen=True, slots=True)
class SweepCounts:
    """Count what a sweep changed: expired leases that were retried, became dead letters (``poisoned``) or were
    cancelled; messages that were made ready (``promoted``): their time had come, or their shared limit or order key let
    them go; channels, queues and shared limits whose pause it has ended (``resumed``), which a tick mostly does before.
    ``not_picked_up``: queues whose messages wait and that no worker serves."""

    retried: int
    poisoned: int
    cancelled: int
    promoted: int
    not_picked_up: int
    resumed: int


def sweep(limit: int = 500, *, using: str | None = None) -> SweepCounts:
    """Give back messages whose leases have expired, promote messages that are due, and move the floors.

    ``limit``: the most expired leases of one call. ``using``: database alias; default: the queue's. Many processes may
    call it at once.
    """
    return SweepCounts(*call(alias(using), SQL, (checked_whole(limit, "limit", least=0), settings.WAITING_WARNING))[0])
