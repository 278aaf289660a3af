"""repair: repair counts, floors, places in the line and order keys that disagree with the messages."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


@dataclass(frozen=True, slots=True)
class RepairCounts:
    """Count the repairs: counts of live messages, floors of leases, and places in the line that were wrong.

    ``places`` also counts messages that waited for their order key although they were the next ones of it.
    """

    counts: int
    lease_floors: int
    places: int


def repair(most: int = 10_000, *, using: str | None = None) -> RepairCounts:
    """Repair counts and places in the line that disagree with the messages. Returns how many of each were wrong.

    ``most``: the most channels that are examined for each kind of fault. ``using``: database alias; default: the
    queue's. It is safe while the queue works, and many processes may call it at once.
    """
    sql = "SELECT counts, lease_floors, places FROM pgqueue_repair(%s::integer)"
    return RepairCounts(*call(alias(using), sql, (most,))[0])
