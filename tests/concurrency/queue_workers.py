"""Workers at random beside which the limits of a whole queue must hold."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.support.chance import Chance
from tests.support.sessions import Session, one, together
from tests.support.verbs import dequeue, retry, settle

WORKERS = 8
CHANNELS = ["a", "b", "c"]
# A limit that is edited in the middle of a transaction holds from the next one on.
LEASED = """
SELECT q.max_concurrency, q.xmin::text, (
    SELECT count(*) FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
    WHERE c.queue = q.name AND m.status = 2)
FROM pgqueue_queue AS q WHERE q.name = 'default'
"""


class QueueWorkers:
    """Run workers of one queue, which hold leases for a moment, give some back, and die on some.

    After each dequeue they count all leases, and note it when there are more than the limit.
    """

    def __init__(self, seed: int, connect: Callable[..., Session]) -> None:
        self.seed = seed
        self.sessions = [connect() for _ in range(WORKERS)]
        self.keeper = connect(autocommit=True)
        self.done = threading.Event()
        self.violations: list[str] = []
        self.peak = 0

    def work(self, place: int) -> None:
        chance = Chance(self.seed, f"worker {place}")
        session = self.sessions[place]
        while not self.done.is_set():
            before = one(session, "SELECT xmin::text FROM pgqueue_queue WHERE name = 'default'")
            dying = chance.of(0.1)
            leases = dequeue(session, chance.random.choice([1, 1, 5]), lease="1 microsecond" if dying else "1 minute")
            for limit, version, count in session.execute(LEASED).fetchall():
                if leases and limit is not None and version == before and count > limit:
                    self.violations.append(f"{count} leased, limit {limit}")
                self.peak = max(count, self.peak)
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
        """Sweep until everything is settled."""
        for _ in range(5000):
            self.keeper.execute("SELECT * FROM pgqueue_sweep()")
            self.keeper.execute("UPDATE pgqueue_message SET dequeue_at = clock_timestamp() WHERE status = 3")
            if not one(self.keeper, "SELECT count(*) FROM pgqueue_message"):
                break
            self.keeper.execute("SELECT pg_sleep(0.005)")
        self.done.set()

    def run(self, *more: Callable[[], object]) -> None:
        """Work until everything is settled, and do ``more`` beside it. Fails if a limit was exceeded."""
        together(*(lambda place=place: self.work(place) for place in range(WORKERS)), self.sweep, *more)
        assert self.violations == []
        assert one(self.keeper, "SELECT count(*) FROM pgqueue_message") == 0
