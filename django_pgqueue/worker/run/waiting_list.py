"""Hold messages that are leased to this process and not started yet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.pace import HandlerPace

Alike = Callable[[Delivery, Delivery], bool]


class WaitingList:
    """Hold enough messages to keep ``concurrency`` handlers busy for a moment; the buffer and the event loop have one.

    ``batch``: the most messages of one dequeue. ``limits``: the limits of handlers with ``concurrency``. ``find``:
    returns the handler of a name, or None. ``alike``: returns whether one call may take both deliveries, if their
    handler is the same; None: always. ``lock``, ``changed``: the lock of the list, and its condition for threads that
    wait for messages. It is safe for threads.
    """

    def __init__(
        self,
        concurrency: int,
        batch: int,
        *,
        limits: HandlerLimits,
        find: Callable[[str], Handler | None] = handlers.find,
        alike: Alike | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._waiting: deque[Delivery] = deque()
        self._pace = HandlerPace(concurrency, batch)
        self._limits = limits
        self._find = find
        self._alike = alike

    def __len__(self) -> int:
        return len(self._waiting)

    def room(self, running: int) -> int:
        """Return how many messages to dequeue now, while ``running`` run."""
        return self._pace.room(len(self._waiting), running)

    def most(self, running: int) -> int:
        """Return how many messages may be put that :meth:`room` did not ask for, while ``running`` run."""
        return self._pace.most(len(self._waiting), running)

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Add messages, and wake a waiting thread for each."""
        with self.lock:
            self._waiting.extend(deliveries)
            self.changed.notify(len(deliveries))

    def take(self, *, takers: int = 1) -> tuple[Handler | None, list[Delivery]] | None:
        """Return the next message that may start with its handler, or a batch of one handler; None: there is none.

        ``takers``: how many threads share the waiting messages; a batch leaves some for the other threads. The handler
        is None for a name that this process does not have.
        """
        with self.lock:
            while self._waiting:
                first = self._waiting.popleft()
                handler = self._find(first.handler)
                if handler is None:
                    return None, [first]
                if handler.concurrency is None or self._limits.start(handler, first):
                    return handler, [first] if handler.batch is None else self._batch(handler.batch, first, takers)
        return None

    def _batch(self, most: int, first: Delivery, takers: int) -> list[Delivery]:
        taken = [first]
        size = min(most, -(-(1 + len(self._waiting)) // takers))
        while len(taken) < size and self._goes_with(first):
            taken.append(self._waiting.popleft())
        return taken

    def _goes_with(self, first: Delivery) -> bool:
        following = self._waiting[0]
        return following.handler == first.handler and (self._alike is None or self._alike(first, following))

    def passed(self, count: int, seconds: float) -> None:
        """Record that ``count`` messages took ``seconds`` in all."""
        self._pace.passed(count, seconds)

    def call_ended(self, handler: Handler, count: int, seconds: float) -> bool:
        """Record that a call took ``seconds`` for ``count`` messages. Returns whether other messages may start now."""
        if handler.concurrency is None:
            return False
        with self.lock:
            following = self._limits.end(handler, count, seconds)
            self._waiting.extendleft(reversed(following))
        return bool(following)

    def drop(self, lost: Delivery) -> bool:
        """Remove this very delivery, whose lease is lost. Returns whether it was waiting here."""
        with self.lock:
            for place, delivery in enumerate(self._waiting):
                if delivery is lost:
                    del self._waiting[place]
                    return True
        return False

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the messages that match, and return them."""
        with self.lock:
            found = [delivery for delivery in self._waiting if matches(delivery)]
            for delivery in found:
                self._waiting.remove(delivery)
            self.changed.notify_all()
        return found

    def clear(self) -> list[Delivery]:
        """Remove all messages, and return them."""
        with self.lock:
            left = list(self._waiting)
            self._waiting.clear()
            self.changed.notify_all()
        return left
