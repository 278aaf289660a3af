"""Hold messages that are leased to this process and not started yet."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.pace import HandlerPace

Alike = Callable[[Delivery, Delivery], bool]


class WaitingList:
    """Hold enough messages to keep ``concurrency`` handlers busy for a moment; the buffer and the event loop have one.

    The channels take turns: the first message of a channel starts after at most one message of each other channel. A
    limit may let a channel have one message at a time, and that one must not wait for all that is leased ahead.

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
        # The messages of each channel that has some, in the order of the turns.
        self._channels: OrderedDict[tuple[str, str], deque[Delivery]] = OrderedDict()
        self._count = 0
        # Messages of handlers that are held because of a failure.
        self._held: deque[Delivery] = deque()
        self._pace = HandlerPace(concurrency, batch)
        self._limits = limits
        self._find = find
        self._alike = alike

    def __len__(self) -> int:
        return self._count + len(self._held)

    @property
    def startable(self) -> int:
        """Return how many messages wait for a free slot alone."""
        return self._count

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
                self._of(delivery).append(delivery)
            self._count += len(deliveries)
            self.changed.notify(len(deliveries))

    def _of(self, delivery: Delivery) -> deque[Delivery]:
        return self._channels.setdefault((delivery.queue, delivery.channel), deque())

    def _pop(self, channel: tuple[str, str]) -> Delivery:
        """Remove the first message of the channel, and put the channel behind the others."""
        waiting = self._channels[channel]
        delivery = waiting.popleft()
        self._count -= 1
        if waiting:
            self._channels.move_to_end(channel)
        else:
            del self._channels[channel]
        return delivery

    def take(self, *, takers: int = 1) -> tuple[Handler | None, list[Delivery]] | None:
        """Return the next message that may start with its handler, or a batch of one handler; None: there is none.

        ``takers``: how many threads share the waiting messages; a batch leaves some for the other threads. The handler
        is None for a name that this process does not have.
        """
        with self.lock:
            while self._count:
                first = self._pop(next(iter(self._channels)))
                handler = self._find(first.handler)
                if handler is None:
                    return None, [first]
                if self._limits.is_held(handler.name):
                    self._held.append(first)
                    continue
                if handler.concurrency is None or self._limits.start(handler, first):
                    return handler, [first] if handler.batch is None else self._batch(handler.batch, first, takers)
        return None

    def resume(self) -> bool:
        """Let messages start whose handlers are not held any more. Returns whether some may."""
        with self.lock:
            freed = list(self._held)
            self._held.clear()
            self._put_first(freed)
            if freed:
                self.changed.notify_all()
        return bool(freed)

    def _put_first(self, deliveries: Sequence[Delivery]) -> None:
        """Add messages before all others, in their order."""
        for delivery in reversed(deliveries):
            self._of(delivery).appendleft(delivery)
            self._channels.move_to_end((delivery.queue, delivery.channel), last=False)
        self._count += len(deliveries)

    def _batch(self, most: int, first: Delivery, takers: int) -> list[Delivery]:
        taken = [first]
        size = min(most, -(-(1 + self._count) // takers))
        channels = list(self._channels)
        while len(taken) < size and (channels := [each for each in channels if self._goes_with(first, each)]):
            taken += map(self._pop, channels[: size - len(taken)])
        return taken

    def _goes_with(self, first: Delivery, channel: tuple[str, str]) -> bool:
        """Return whether the first message of the channel, if there is one, may be in a batch with ``first``."""
        if channel not in self._channels:
            return False
        following = self._channels[channel][0]
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
            self._put_first(following)
        return bool(following)

    def drop(self, lost: Delivery) -> bool:
        """Remove this very delivery, whose lease is lost. Returns whether it was waiting here."""
        return bool(self.withdraw(lambda delivery: delivery is lost))

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the messages that match, and return them."""
        with self.lock:
            waiting = [delivery for each in self._channels.values() for delivery in each]
            found = [delivery for delivery in (*self._held, *waiting) if matches(delivery)]
            if found:
                gone = set(map(id, found))
                self._held = deque(delivery for delivery in self._held if id(delivery) not in gone)
                self._channels.clear()
                for delivery in waiting:
                    if id(delivery) not in gone:
                        self._of(delivery).append(delivery)
                self._count = sum(map(len, self._channels.values()))
            self.changed.notify_all()
        return found

    def clear(self) -> list[Delivery]:
        """Remove all messages, and return them."""
        return self.withdraw(lambda delivery: True)
