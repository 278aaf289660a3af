"""traffic: count the messages that were enqueued and settled, by the server's statistics."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = """
SELECT extract(epoch FROM clock_timestamp())::float,
    pg_stat_get_tuples_inserted(to_regclass('pgqueue_message')),
    (SELECT coalesce(sum(pg_stat_get_tuples_inserted(c.oid)), 0)::bigint
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass('pgqueue_archived_message')),
    pg_stat_get_tuples_inserted(to_regclass('pgqueue_dead_letter'))
"""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Count the rows that were ever written, including those of transactions that were rolled back.

    ``at``: seconds since the epoch, by the clock of the database. The server's statistics are some seconds late, and
    start again after a crash.
    """

    at: float
    enqueued: int
    archived: int
    dead: int

    def since(self, before: Traffic) -> dict[str, float]:
        """Return messages per second since ``before``, by the names ``enqueued``, ``archived`` and ``dead``."""
        seconds = max(self.at - before.at, 0.001)
        return {
            name: max(0, getattr(self, name) - getattr(before, name)) / seconds
            for name in ("enqueued", "archived", "dead")
        }


def traffic(*, using: str | None = None) -> Traffic:
    """Return how many messages were ever enqueued, archived and dead-lettered, in all queues of the database.

    ``using``: database alias; default: the queue's. :meth:`Traffic.since` computes rates from two readings.
    """
    return Traffic(*call(alias(using), SQL)[0])
