"""The buffer: messages that are leased to this worker and not started yet, and how many more it may take."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from django_pgqueue.delivery import Delivery

# Seconds. A message shall not wait longer than this in memory: another worker might have started it.
LONGEST_WAIT = 0.2
# So many dequeues fit into memory.
LARGEST = 4
INERTIA = 0.9


class Buffer:
    """Between the producer and the slots. It holds what keeps the slots busy for a moment, by the pace of the handlers.

    ``wake``: called when there is room for more. ``together``: how many messages like this one its handler takes in
    one call.
    """

    def __init__(
        self, concurrency: int, batch: int, *, wake: Callable[[], None], together: Callable[[Delivery], int]
    ) -> None:
        self.concurrency = concurrency
        self.batch = batch
        self.running = 0
        self._wake = wake
        self._together = together
        self._idle = 0
        self._seconds: float | None = None
        self.closed = False
        self._waiting: deque[Delivery] = deque()
        self._changed = threading.Condition()

    def room(self) -> int:
        """How many messages to dequeue now: 0 as long as enough are here, so that dequeues come in batches."""
        with self._changed:
            return self._room()

    def _room(self) -> int:
        prefetch = (
            min(LARGEST * self.batch, int(self.concurrency * LONGEST_WAIT / self._seconds)) if self._seconds else 0
        )
        wanted = self.concurrency + prefetch
        room = wanted - len(self._waiting) - self.running
        return min(room, self.batch) if room > 0 and (not self._waiting or room >= wanted // 2) else 0

    def put(self, deliveries: Iterable[Delivery]) -> None:
        with self._changed:
            self._waiting.extend(deliveries)
            self._changed.notify_all()

    def take(self) -> list[Delivery] | None:
        """The next message, or a batch of one handler; blocks until there is one; None when the buffer is closed."""
        with self._changed:
            while not self._waiting:
                if self.closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            # No more than this slot's share: a batch must not leave the slots that have nothing to do without work.
            size = min(self._together(self._waiting[0]), -(-len(self._waiting) // (1 + self._idle)))
            taken = [self._waiting.popleft()]
            while len(taken) < size and self._waiting[0].handler == taken[0].handler:
                taken.append(self._waiting.popleft())
            self.running += len(taken)
            room = self._room()
        if room:
            self._wake()
        return taken

    def finished(self, count: int, seconds: float) -> None:
        with self._changed:
            self.running -= count
            each, before = seconds / count, INERTIA**count
            self._seconds = max(1e-6, each if self._seconds is None else before * self._seconds + (1 - before) * each)
            room = self._room()
            if not self.running:
                self._changed.notify_all()
        if room:
            self._wake()

    def drop(self, lost: Delivery) -> bool:
        """Forget a message that is not ours any more. Returns whether it was still waiting."""
        with self._changed:
            for place, delivery in enumerate(self._waiting):
                if delivery is lost:
                    del self._waiting[place]
                    return True
        return False

    def close(self) -> list[Delivery]:
        """Start nothing more; returns what was not started."""
        with self._changed:
            self.closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        return left

    def wait_until_idle(self, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self.running and not self._waiting, timeout)
