"""Compute how many messages to lease ahead of the handlers, from their mean duration."""

from __future__ import annotations

# A message must not wait longer than this in memory, because another worker might have started it.
LONGEST_WAIT_SECONDS = 0.2
# Memory holds at most the messages of this many dequeues.
MOST_DEQUEUES = 4
OLD_MEAN_SHARE = 0.9


class HandlerPace:
    """Compute the size of a waiting list. ``concurrency``: handlers at a time. ``batch``: messages of one dequeue."""

    def __init__(self, concurrency: int, batch: int) -> None:
        self.concurrency = concurrency
        self._batch = batch
        self._seconds: float | None = None

    def passed(self, count: int, seconds: float) -> None:
        """Record that ``count`` messages took ``seconds`` in all of one handler's time."""
        each, before = seconds / count, OLD_MEAN_SHARE ** min(count, 1000)
        self._seconds = max(1e-6, each if self._seconds is None else before * self._seconds + (1 - before) * each)

    def room(self, waiting: int, running: int) -> int:
        """Return how many messages to dequeue now; 0 while enough are here, so that a dequeue takes many.

        ``waiting``, ``running``: messages in memory, and those that run.
        """
        wanted = self._wanted()
        room = wanted - waiting - running
        return min(room, self._batch) if room > 0 and (not waiting or room >= wanted // 2) else 0

    def most(self, waiting: int, running: int) -> int:
        """Return how many more messages memory may take that :meth:`room` did not ask for, such as returned ones.

        It is ``concurrency`` more than ``room`` ever asks for; 0 when memory is full. ``waiting``, ``running``: as for
        ``room``.
        """
        return max(0, self._wanted() + self.concurrency - waiting - running)

    def _wanted(self) -> int:
        if self._seconds is None:
            return self.concurrency
        ahead = MOST_DEQUEUES * self._batch
        if self._seconds * ahead > self.concurrency * LONGEST_WAIT_SECONDS:
            ahead = int(self.concurrency * LONGEST_WAIT_SECONDS / self._seconds)
        return self.concurrency + ahead
