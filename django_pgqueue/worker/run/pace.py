"""The pace of the handlers: how many messages are worth having in memory ahead of them."""

from __future__ import annotations

# Seconds. A message shall not wait longer than this in memory: another worker might have started it.
LONGEST_WAIT = 0.2
# So many dequeues fit into memory.
LARGEST = 4
INERTIA = 0.9


class HandlerPace:
    def __init__(self, concurrency: int, batch: int) -> None:
        self.concurrency = concurrency
        self._batch = batch
        self._seconds: float | None = None

    def passed(self, count: int, seconds: float) -> None:
        """Record that ``count`` messages took ``seconds`` of one handler's time."""
        each, before = seconds / count, INERTIA ** min(count, 1000)
        self._seconds = max(1e-6, each if self._seconds is None else before * self._seconds + (1 - before) * each)

    def room(self, waiting: int, running: int) -> int:
        """Return how many messages to dequeue now: 0 while enough are here, so that dequeues come in batches."""
        wanted = self._wanted()
        room = wanted - waiting - running
        return min(room, self._batch) if room > 0 and (not waiting or room >= wanted // 2) else 0

    def most(self, waiting: int, running: int) -> int:
        """Return how many messages may be put that were not asked for."""
        return max(0, self._wanted() + self.concurrency - waiting - running)

    def _wanted(self) -> int:
        if self._seconds is None:
            return self.concurrency
        ahead = LARGEST * self._batch
        if self._seconds * ahead > self.concurrency * LONGEST_WAIT:
            ahead = int(self.concurrency * LONGEST_WAIT / self._seconds)
        return self.concurrency + ahead
