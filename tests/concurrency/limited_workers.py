"""Workers that share a queue, and check the limits at each of their commits."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.support.chance import Chance
from tests.support.sessions import Session, one, together
from tests.support.verbs import dequeue, retry, settle

WORKERS = 8


LEASED = """
SELECT c.name, c.max_concurrency, c.xmin::text, count(m.id) FROM pgqueue_channel AS c
LEFT JOIN pgqueue_message AS m ON m.channel_id = c.id AND m.status = 2
WHERE c.name = ANY (%s) GROUP BY c.id
"""


def versions(session: Session) -> dict[str, str]:
    """By channel the transaction that wrote its row."""
    return dict(session.execute("SELECT name, xmin::text FROM pgqueue_channel").fetchall())


class LimitedWorkers:
    """Workers that hold leases for a moment, give some back, and die on some. Each dequeue then counts the leases."""

    def __init__(self, seed: int, connect: Callable[..., Session], queue: str = "default") -> None:
        self.seed = seed
        self.queue = queue
        self.sessions = [connect() for _ in range(WORKERS)]
        self.keeper = connect(autocommit=True)
        self.done = threading.Event()
        self.violations: list[str] = []
        self.peak: dict[str, int] = {}

    def work(self, place: int) -> None:
        chance = Chance(self.seed, f"worker {place}")
        session = self.sessions[place]
        while not self.done.is_set():
            before = versions(session)
            dying = chance.of(0.1)
            leases = dequeue(session, chance.random.choice([1, 1, 5]), lease="1 microsecond" if dying else "1 minute")
            channels = [list({lease.channel for lease in leases})]
            for name, limit, version, count in session.execute(LEASED, channels).fetchall():
                # A limit that is edited in the middle of this transaction, also to and fro, holds from the next one on.
                if limit is not None and version == before[name] and count > limit:
                    self.violations.append(f"{name}: {count} leased, limit {limit}")
                self.peak[name] = max(count, self.peak.get(name, 0))
            session.commit()
            if not leases or dying:
                continue
            chance.pause(0.004)
            try:
                match chance.random.random():
                    case dice if dice < 0.1:
                        retry(session, leases)
                    case dice if dice < 0.2:
                        settle(session, leases, "defer")
                    case _:
                        settle(session, leases)
            finally:
                session.commit()

    def sweep(self) -> None:
        """Until everything is settled."""
        for _ in range(5000):
            self.keeper.execute("SELECT * FROM pgqueue_sweep()")
            # Back-off is not what is tested here.
            self.keeper.execute("UPDATE pgqueue_message SET dequeue_at = clock_timestamp() WHERE status = 3")
            if not one(self.keeper, "SELECT count(*) FROM pgqueue_message"):
                break
            self.keeper.execute("SELECT pg_sleep(0.005)")
        self.done.set()

    def run(self, *more: Callable[[], object]) -> None:
        together(*(lambda place=place: self.work(place) for place in range(WORKERS)), self.sweep, *more)
        assert self.violations == []
        assert one(self.keeper, "SELECT count(*) FROM pgqueue_message") == 0
