"""Hold messages that are leased to this process and not started yet."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.pace import HandlerPace

Alike = Callable[[Delivery, Delivery], bool]


class WaitingList:
    """Hold enough messages to keep ``concurrency`` handlers busy for a moment; the buffer and the event loop have one.

    A message whose channel has none here starts before those that were leased ahead: its channel may have to wait for
    its end, because of a limit, while theirs may not.

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
        # The first list holds messages whose channels had none here.
        self._first: deque[Delivery] = deque()
        self._others: deque[Delivery] = deque()
        self._channels: Counter[tuple[str, str]] = Counter()
        self._pace = HandlerPace(concurrency, batch)
        self._limits = limits
        self._find = find
        self._alike = alike

    def __len__(self) -> int:
        return len(self._first) + len(self._others)

    def free(self, calls: int) -> int:
        """Return how many more messages there is room for, while so many calls run."""
        return self._pace.free(len(self), calls)

    def room(self, calls: int) -> int:
        """Return how many messages to dequeue now, while so many calls run."""
        return self._pace.room(len(self), calls)

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Add messages, and wake a waiting thread for each."""
        with self.lock:
            for delivery in deliveries:
                channel = (delivery.queue, delivery.channel)
                (self._others if self._channels[channel] else self._first).append(delivery)
                self._channels[channel] += 1
            self.changed.notify(len(deliveries))

    def _pop(self) -> Delivery:
        delivery = (self._first or self._others).popleft()
        self._left(delivery)
        return delivery

    def _left(self, delivery: Delivery) -> None:
        channel = (delivery.queue, delivery.channel)
        self._channels[channel] -= 1
        if not self._channels[channel]:
            del self._channels[channel]

    def take(self, *, takers: int = 1) -> tuple[Handler | None, list[Delivery]] | None:
        """Return the next message that may start with its handler, or a batch of one handler; None: there is none.

        ``takers``: how many threads share the waiting messages; a batch leaves some for the other threads. The handler
        is None for a name that this process does not have.
        """
        with self.lock:
            while len(self):
                first = self._pop()
                handler = self._find(first.handler)
                if handler is None:
                    return None, [first]
                if handler.concurrency is None or self._limits.start(handler, first):
                    return handler, [first] if handler.batch is None else self._batch(handler.batch, first, takers)
        return None

    def _batch(self, most: int, first: Delivery, takers: int) -> list[Delivery]:
        taken = [first]
        size = min(most, -(-(1 + len(self)) // takers))
        while len(taken) < size and self._goes_with(first):
            taken.append(self._pop())
        return taken

    def _goes_with(self, first: Delivery) -> bool:
        following = (self._first or self._others)[0]
        return following.handler == first.handler and (self._alike is None or self._alike(first, following))

    def passed(self, calls: int, seconds: float) -> None:
        """Record that so many calls took ``seconds`` in all."""
        self._pace.passed(calls, seconds)

    def sized(self, handler: Handler | None) -> None:
        """Record the handler of the last call: one with a batch takes many messages."""
        self._pace.sized(handler.batch or 1 if handler is not None else 1)

    def call_ended(self, handler: Handler, count: int, seconds: float) -> bool:
        """Record that a call took ``seconds`` for ``count`` messages. Returns whether other messages may start now."""
        if handler.concurrency is None:
            return False
        with self.lock:
            following = self._limits.end(handler, count, seconds)
            for delivery in reversed(following):
                self._first.appendleft(delivery)
                self._channels[delivery.queue, delivery.channel] += 1
        return bool(following)

    def drop(self, lost: Delivery) -> bool:
        """Remove this very delivery, whose lease is lost. Returns whether it was waiting here."""
        return bool(self.withdraw(lambda delivery: delivery is lost))

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the messages that match, and return them."""
        with self.lock:
            found = [delivery for delivery in (*self._first, *self._others) if matches(delivery)]
            if found:
                gone = set(map(id, found))
                self._first = deque(delivery for delivery in self._first if id(delivery) not in gone)
                self._others = deque(delivery for delivery in self._others if id(delivery) not in gone)
                for delivery in found:
                    self._left(delivery)
            self.changed.notify_all()
        return found

    def clear(self) -> list[Delivery]:
        """Remove all messages, and return them."""
        return self.withdraw(lambda delivery: True)
