"""Workers at random beside which the limits of a whole queue must hold."""

from __future__ import annotations

from typing import Any

from tests.concurrency.workers import Workers
from tests.support.sessions import Session, one

CHANNELS = ["a", "b", "c"]
LEASED = """
SELECT q.max_concurrency, q.xmin::text, (
    SELECT count(*) FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
    WHERE c.queue = q.name AND m.status = 2)
FROM pgqueue_queue AS q WHERE q.name = 'default'
"""


class QueueWorkers(Workers):
    """Count all leases of the queue after each dequeue. ``peak``: the most that were seen."""

    peak = 0

    def versions(self, session: Session) -> str:
        """Return the transaction that wrote the queue's row."""
        return one(session, "SELECT xmin::text FROM pgqueue_queue WHERE name = 'default'")

    def count(self, session: Session, before: str, leases: list[Any]) -> None:
        """Count the leases of the queue."""
        for limit, version, count in session.execute(LEASED).fetchall():
            if leases and limit is not None and version == before and count > limit:
                self.violations.append(f"{count} leased, limit {limit}")
            self.peak = max(count, self.peak)
