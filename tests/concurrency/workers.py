"""Workers at random beside which limits must hold."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.support.chance import Chance
from tests.support.sessions import Connect, Session, one, together
from tests.support.verbs import dequeue, retry, settle

WORKERS = 8
# A message that a worker settles meanwhile is left out: the two could wait for each other.
DUE = """
UPDATE pgqueue_message SET dequeue_at = clock_timestamp()
WHERE id = ANY (ARRAY(SELECT id FROM pgqueue_message WHERE status = 3 FOR UPDATE SKIP LOCKED))
"""


class Workers:
    """Run workers that hold leases for a moment, give some back, and die on some.

    A subclass knows a limit: ``versions`` reads which one is in force, and ``count`` notes in ``violations`` when
    there are more leases than that. They frame each dequeue, in its transaction. A limit that is edited in the middle
    of a transaction, also to and fro, holds from the next one on.
    """

    def __init__(self, seed: int, connect: Connect) -> None:
        self.seed = seed
        self.sessions = [connect() for _ in range(WORKERS)]
        self.keeper = connect(autocommit=True)
        self.done = threading.Event()
        self.violations: list[str] = []

    def versions(self, session: Session) -> Any:
        """Return the transactions that wrote the limits which are in force."""
        raise NotImplementedError

    def count(self, session: Session, before: Any, leases: list[Any]) -> None:
        """Count the leases after a dequeue. ``before``: what ``versions`` returned."""
        raise NotImplementedError

    def work(self, place: int) -> None:
        """Dequeue and settle until everything is settled, as the worker of this number."""
        chance = Chance(self.seed, f"worker {place}")
        session = self.sessions[place]
        while not self.done.is_set():
            before = self.versions(session)
            dying = chance.of(0.1)
            leases = dequeue(session, chance.random.choice([1, 1, 5]), lease="1 microsecond" if dying else "1 minute")
            self.count(session, before, leases)
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
            # Back-off is not what is tested here.
            self.keeper.execute(DUE)
            if not one(self.keeper, "SELECT count(*) FROM pgqueue_message"):
                break
            self.keeper.execute("SELECT pg_sleep(0.005)")
        self.done.set()

    def run(self, *more: Callable[[], object]) -> None:
        """Work until everything is settled, and do ``more`` beside it. Fails if a limit was exceeded."""
        together(*(lambda place=place: self.work(place) for place in range(WORKERS)), self.sweep, *more)
        assert self.violations == []
        assert one(self.keeper, "SELECT count(*) FROM pgqueue_message") == 0
