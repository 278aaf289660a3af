"""Hold messages for the threads that are leased to this worker and not started yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.waiting_list import Alike, WaitingList


class Buffer:
    """Hold messages between the dispatch, which puts them, and the threads, which wait for them.

    ``concurrency``: the number of threads. ``batch``: the most messages of one dequeue. ``limits``: the limits of
    handlers that have a ``concurrency``. ``wake``: called when there is room for more messages. ``alike``: whether one
    call may take two deliveries of one handler together. ``running``: messages that run now. ``closed``: nothing more
    may start.
    """

    def __init__(
        self,
        concurrency: int,
        batch: int,
        *,
        limits: HandlerLimits,
        wake: Callable[[], None],
        alike: Alike | None = None,
    ) -> None:
        self.concurrency = concurrency
        self.running = 0
        self.closed = False
        self._calls = 0
        self._wake = wake
        self._idle = 0
        self._waiting = WaitingList(concurrency, batch, limits=limits, alike=alike)
        self._lock, self._changed = self._waiting.lock, self._waiting.changed

    def room(self) -> int:
        """Return how many messages to dequeue now."""
        with self._lock:
            return self._waiting.room(self._calls)

    @property
    def waiting(self) -> int:
        """Return how many messages wait to be started."""
        return len(self._waiting)

    def busy(self) -> bool:
        """Return whether messages run or wait here."""
        return bool(self.running or self._waiting)

    def free(self) -> int:
        """Return how many messages there is room for."""
        with self._lock:
            return self._waiting.free(self._calls)

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Add messages, and wake the threads that wait for one."""
        self._waiting.put(deliveries)

    def take(self) -> list[Delivery] | None:
        """Wait for a message and return it, or a batch of one handler; None when the buffer is closed."""
        with self._lock:
            while (found := self._waiting.take(takers=1 + self._idle)) is None:
                if self.closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            _, taken = found
            self.running += len(taken)
            self._calls += 1
            # A message that is taken still counts, so only the last one makes room.
            room = 0 if self._waiting else self._waiting.room(self._calls)
        if room:
            self._wake()
        return taken

    def finished(self, deliveries: list[Delivery], seconds: float) -> None:
        """Record the end of a call that took ``seconds`` for these deliveries."""
        handler = handlers.find(deliveries[0].handler)
        with self._lock:
            self.running -= len(deliveries)
            self._calls -= 1
            self._waiting.passed(1, seconds)
            self._waiting.sized(handler)
            others = handler is not None and self._waiting.call_ended(handler, len(deliveries), seconds)
            room = self._waiting.room(self._calls)
            if others:
                self._changed.notify_all()
        if room:
            self._wake()

    def resume(self) -> None:
        """Start messages whose handlers are not held any more."""
        self._waiting.resume()

    def drop(self, lost: Delivery) -> bool:
        """Remove a message whose lease is lost. Returns whether it was still waiting."""
        return self._waiting.drop(lost)

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the messages that match and were not started, and return them."""
        return self._waiting.withdraw(matches)

    def close(self) -> list[Delivery]:
        """Start no more messages. Returns those that were not started."""
        with self._lock:
            self.closed = True
            return self._waiting.clear()
