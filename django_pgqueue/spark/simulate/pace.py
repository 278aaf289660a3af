"""Compute how many messages the workers lease ahead of their handlers, by the rules of the worker's own pace."""

from __future__ import annotations

# These are the constants of django_pgqueue.worker.run.pace, which Spark's workers cannot import; a test compares them.
LONGEST_WAIT_MICROSECONDS = 20_000  # microseconds
MOST_DEQUEUES = 4
OLD_MEAN_SHARE = 0.9


class SimulatedPace:
    """The pace of all workers.

    ``slots``: handlers of all workers together; ``batch``: the most messages of one dequeue; 0: none ahead of the
    slots.
    """

    def __init__(self, slots: int, batch: int) -> None:
        self._slots = slots
        self._batch = batch
        self._run: float | None = None

    def passed(self, run: int) -> None:
        """Record that a handler took ``run`` microseconds."""
        self._run = max(1.0, run if self._run is None else OLD_MEAN_SHARE * self._run + (1 - OLD_MEAN_SHARE) * run)

    def room(self, waiting: int, idle: int) -> int:
        """Return how many messages to dequeue now. ``waiting``: messages in memory; ``idle``: free slots."""
        if not self._batch:
            return idle
        ahead = 0
        if self._run is not None:
            ahead = int(min(MOST_DEQUEUES * self._batch, self._slots * LONGEST_WAIT_MICROSECONDS / self._run))
        room = max(0, min(ahead - waiting + idle, self._batch))
        return room if not waiting or room >= min(ahead // 2, self._batch) else 0
