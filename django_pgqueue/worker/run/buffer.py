"""The buffer: messages for the slots that are leased to this worker and not started yet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.pace import HandlerPace


class Buffer:
    """Between the producer and the slots. It holds what keeps the slots busy for a moment, by the pace of the handlers.

    ``wake``: called when there is room for more. ``alike``: whether one call may take both, if their handler is the
    same.
    """

    def __init__(
        self,
        concurrency: int,
        batch: int,
        *,
        limits: HandlerLimits,
        wake: Callable[[], None],
        alike: Callable[[Delivery, Delivery], bool] | None = None,
    ) -> None:
        self.concurrency = concurrency
        self.running = 0
        self.closed = False
        self._pace = HandlerPace(concurrency, batch)
        self._limits = limits
        self._wake = wake
        self._alike = alike
        self._idle = 0
        self._waiting: deque[Delivery] = deque()
        self._changed = threading.Condition()

    def room(self) -> int:
        with self._changed:
            return self._room()

    def busy(self) -> bool:
        return bool(self.running or self._waiting)

    def most(self) -> int:
        with self._changed:
            return self._pace.most(len(self._waiting), self.running)

    def _room(self) -> int:
        return self._pace.room(len(self._waiting), self.running)

    def put(self, deliveries: Iterable[Delivery]) -> None:
        with self._changed:
            self._waiting.extend(deliveries)
            self._changed.notify_all()

    def take(self) -> list[Delivery] | None:
        """The next message, or a batch of one handler; blocks until there is one; None when the buffer is closed."""
        with self._changed:
            while (first := self._next()) is None:
                if self.closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            taken = [first]
            # No more than this slot's share: a batch must not leave the slots that have nothing to do without work.
            size = min(together(first), -(-(1 + len(self._waiting)) // (1 + self._idle)))
            while len(taken) < size and self._goes_with(first):
                taken.append(self._waiting.popleft())
            self.running += len(taken)
            room = self._room()
        if room:
            self._wake()
        return taken

    def _goes_with(self, first: Delivery) -> bool:
        following = self._waiting[0]
        return following.handler == first.handler and (self._alike is None or self._alike(first, following))

    def _next(self) -> Delivery | None:
        """The first that may run."""
        while self._waiting:
            delivery = self._waiting.popleft()
            handler = handlers.find(delivery.handler)
            if handler is None or self._limits.start(handler, delivery):
                return delivery
        return None

    def finished(self, deliveries: list[Delivery], seconds: float) -> None:
        """One call of their handler is over."""
        handler = handlers.find(deliveries[0].handler)
        with self._changed:
            self.running -= len(deliveries)
            self._pace.passed(len(deliveries), seconds)
            following = [] if handler is None else self._limits.end(handler, len(deliveries), seconds)
            self._waiting.extendleft(reversed(following))
            room = self._room()
            if following or not self.running:
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


def together(delivery: Delivery) -> int:
    """How many messages like this one its handler takes in one call."""
    handler = handlers.find(delivery.handler)
    return 1 if handler is None else handler.batch or 1
