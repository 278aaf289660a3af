"""Compute how many messages to lease ahead of the handlers, from their mean duration."""

from __future__ import annotations

# A message must not wait longer than this in memory: another worker might have started it, its lease counts for the
# share and the limits of its channel, and it goes back if a breaker opens. It is some times as long as a dequeue.
LONGEST_WAIT_SECONDS = 0.02
# Memory holds at most the messages of this many dequeues.
MOST_DEQUEUES = 4
OLD_MEAN_SHARE = 0.9
# So many calls in a row must have been of handlers with a batch before free slots get batches: messages of another
# handler would wait in memory.
CALLS_WITH_A_BATCH = 8


class HandlerPace:
    """Compute the size of a waiting list. ``concurrency``: calls at a time. ``batch``: messages of one dequeue."""

    def __init__(self, concurrency: int, batch: int) -> None:
        self.concurrency = concurrency
        self._batch = batch
        self._seconds: float | None = None
        self._size = 1
        self._larger = 0

    def passed(self, calls: int, seconds: float) -> None:
        """Record that so many calls took ``seconds`` in all."""
        each, before = seconds / calls, OLD_MEAN_SHARE ** min(calls, 1000)
        self._seconds = max(1e-6, each if self._seconds is None else before * self._seconds + (1 - before) * each)

    def sized(self, size: int) -> None:
        """Record how many messages the last call could have taken: 1, or the batch of its handler."""
        self._larger = self._larger + 1 if size > self._size else 0
        if size < self._size or self._larger == CALLS_WITH_A_BATCH:
            self._size, self._larger = size, 0

    def free(self, waiting: int, calls: int) -> int:
        """Return how many more messages memory may take, the batch of a dequeue at most.

        ``waiting``: messages in memory. ``calls``: calls that run.
        """
        return max(0, min((self.concurrency - calls + self._ahead()) * self._size - waiting, self._batch))

    def room(self, waiting: int, calls: int) -> int:
        """Return how many messages to dequeue now; 0 while enough are here, so that a dequeue takes many.

        ``waiting``, ``calls``: as for :meth:`free`.
        """
        free = self.free(waiting, calls)
        return free if not waiting or free >= min(self._ahead() * self._size // 2, self._batch) else 0

    def _ahead(self) -> int:
        """Return how many calls to lease ahead."""
        if self._seconds is None:
            return 0
        ahead = MOST_DEQUEUES * self._batch
        if self._seconds * ahead > self.concurrency * LONGEST_WAIT_SECONDS:
            ahead = int(self.concurrency * LONGEST_WAIT_SECONDS / self._seconds)
        return ahead
