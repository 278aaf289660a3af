"""traffic: how many messages came and went, by the server's statistics."""

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
    """Rows that were ever written, those of transactions that were rolled back included, at ``at`` (epoch seconds of
    the database). The server's statistics are some seconds late, and start again after a crash."""

    at: float
    enqueued: int
    archived: int
    dead: int

    def since(self, before: Traffic) -> dict[str, float]:
        """Messages per second, by name."""
        seconds = max(self.at - before.at, 0.001)
        return {
            name: max(0, getattr(self, name) - getattr(before, name)) / seconds
            for name in ("enqueued", "archived", "dead")
        }


def traffic(*, using: str | None = None) -> Traffic:
    """Counters of the whole database; the difference of two looks is what went on between them."""
    return Traffic(*call(alias(using), SQL)[0])
