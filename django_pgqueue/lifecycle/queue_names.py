"""queue_names: list the queues."""

from __future__ import annotations

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

# One look-up in the index for each queue, however many channels each of them has.
SQL = """
WITH RECURSIVE name AS (
    SELECT min(c.queue) AS queue FROM pgqueue_channel AS c
    UNION ALL
    SELECT (SELECT min(c.queue) FROM pgqueue_channel AS c WHERE c.queue > n.queue)
    FROM name AS n
    WHERE n.queue IS NOT NULL
)
SELECT n.queue::text FROM name AS n WHERE n.queue IS NOT NULL
"""


def queue_names(*, using: str | None = None) -> tuple[str, ...]:
    """Return the names of the queues that have a channel, in alphabetical order."""
    return tuple(name for (name,) in call(alias(using), SQL))
