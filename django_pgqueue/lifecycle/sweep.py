"""sweep: give back what dead workers held."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.arguments import whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = """
SELECT retried, poisoned, cancelled, promoted, not_picked_up, resumed FROM pgqueue_sweep(%s::integer, %s::interval)
"""


@dataclass(frozen=True, slots=True)
class SweepCounts:
    """Expired leases that go through a retry, died of poison or were cancelled; scheduled messages made ready; queues
    that nobody serves; channels and queues whose pause has ended."""

    retried: int
    poisoned: int
    cancelled: int
    promoted: int
    not_picked_up: int
    resumed: int


def sweep(limit: int = 500, *, using: str | None = None) -> SweepCounts:
    """Sweep up to ``limit`` expired leases, promote what is due, move the floors. Safe to run from many places at
    once."""
    return SweepCounts(*call(alias(using), SQL, (whole(limit, "limit", least=0), settings.WAITING_WARNING))[0])
