"""Choose the pause after an empty dequeue, when other consumers have locked what is there."""

from __future__ import annotations

import random
from collections.abc import Iterable

from django_pgqueue.lifecycle.dequeue import is_contended

SHORTEST_PAUSE_SECONDS = 0.001
LONGEST_PAUSE_SECONDS = 0.1


class Contention:
    """Compute the producer's pause while other consumers hold locks, whose release sends no notification.

    ``using``: database alias. ``shortest``: the seconds of the first pause. ``tries``: looks in a row that found only
    messages locked by others.
    """

    def __init__(self, using: str | None, shortest: float = SHORTEST_PAUSE_SECONDS) -> None:
        self._using = using
        self._shortest = shortest
        self.tries = 0

    def looked(self, found: int) -> None:
        """Record that a dequeue has returned ``found`` messages."""
        if found:
            self.tries = 0

    def pause(self, queues: Iterable[str]) -> float:
        """Return the seconds until the next look: they double each time, with jitter. 0: no other consumer has a lock.

        ``queues``: the names to ask the database about. Raises its error.
        """
        if not is_contended(queues, using=self._using):
            self.tries = 0
            return 0.0
        self.tries += 1
        longest = min(LONGEST_PAUSE_SECONDS, self._shortest * 2.0 ** min(self.tries, 10))
        return longest * random.uniform(0.5, 1.0)
