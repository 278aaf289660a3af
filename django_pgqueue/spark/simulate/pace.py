"""How many messages the workers lease ahead of their handlers: the rules of the worker's own pace."""

from __future__ import annotations

# Those of django_pgqueue.worker.run.pace, which Spark's workers cannot import; a test compares them.
LONGEST_WAIT = 200_000  # microseconds
LARGEST = 4
INERTIA = 0.9


class SimulatedPace:
    """``slots``: of all workers together; ``batch``: the most of one dequeue, 0: none ahead of the slots."""

    def __init__(self, slots: int, batch: int) -> None:
        self._slots = slots
        self._batch = batch
        self._run: float | None = None

    def passed(self, run: int) -> None:
        """A handler took so many microseconds."""
        self._run = max(1.0, run if self._run is None else INERTIA * self._run + (1 - INERTIA) * run)

    def room(self, waiting: int, idle: int) -> int:
        """How many messages to dequeue now."""
        if not self._batch:
            return idle
        wanted = self._slots
        if self._run is not None:
            wanted += int(min(LARGEST * self._batch, self._slots * LONGEST_WAIT / self._run))
        room = wanted - waiting - (self._slots - idle)
        return min(room, self._batch) if room > 0 and (not waiting or room >= wanted // 2) else 0
