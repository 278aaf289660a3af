"""Helpers of the tests of rates that count costs."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.sessions import Session, one
from tests.support.verbs import Lease, dequeue

Rated = Callable[..., None]
HOUR = "1 hour"
# A message may cost whatever it wants: the debts of these tests are larger than an hour.
UNBOUND = "SET pgqueue.max_debt = '170000000 years'"


def spend(session: Session, lease: Lease, cost: int) -> int:
    return int(one(session, "SELECT pgqueue_spend(%s, %s, %s)", lease.id, lease.token, cost))


def taken(session: Session, limit: int = 1) -> list[int]:
    """Return the messages that five dequeues take."""
    return [lease.id for _ in range(5) for lease in dequeue(session, limit)]
