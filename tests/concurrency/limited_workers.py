"""Workers at random beside which the limits of channels must hold."""

from __future__ import annotations

from typing import Any

from tests.concurrency.workers import Workers
from tests.support.sessions import Connect, Session

LEASED = """
SELECT c.name, c.max_concurrency, c.xmin::text, count(m.id) FROM pgqueue_channel AS c
LEFT JOIN pgqueue_message AS m ON m.channel_id = c.id AND m.status = 2
WHERE c.name = ANY (%s) GROUP BY c.id
"""


class LimitedWorkers(Workers):
    """Count the leases of the channels of each dequeue. ``peak``: the most that were seen, by channel."""

    def __init__(self, seed: int, connect: Connect) -> None:
        super().__init__(seed, connect)
        self.peak: dict[str, int] = {}

    def versions(self, session: Session) -> dict[str, str]:
        """Return the transaction that wrote each channel's row, by channel."""
        return dict(session.execute("SELECT name, xmin::text FROM pgqueue_channel").fetchall())

    def count(self, session: Session, before: dict[str, str], leases: list[Any]) -> None:
        """Count the leases of the channels from which the dequeue took."""
        channels = [list({lease.channel for lease in leases})]
        for name, limit, version, count in session.execute(LEASED, channels).fetchall():
            if limit is not None and version == before[name] and count > limit:
                self.violations.append(f"{name}: {count} leased, limit {limit}")
            self.peak[name] = max(count, self.peak.get(name, 0))
