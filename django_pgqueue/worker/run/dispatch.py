"""Dispatch: messages go to the slots or to the event loop, by what their handler is."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.outcomes import Defer
from django_pgqueue.worker.call.executor import Execution
from django_pgqueue.worker.hold.board import Board
from django_pgqueue.worker.hold.lease_keeper import Keeper
from django_pgqueue.worker.run.async_runner import AsyncRunner
from django_pgqueue.worker.run.buffer import Buffer
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.suspects import Suspects

# Seconds for which there may be more async messages, after there were some.
RECENT = 10.0
# Seconds between two looks for async messages behind those that the slots have no room for, at first and at most.
CAREFUL = 0.5
MOST_CAREFUL = 2.0
# Messages that wait for a handler with a limit, in a worker that is to work everything off.
MOST_PARKED = 1000
# Archives a message whose cancellation was requested, with the reason given then; gives back any other.
NOT_STARTED = Defer()
# For another worker, or for this one when there is room.
LATER = Defer(delay=timedelta(seconds=1))


class Dispatch:
    """Distributes messages from the producer. ``put`` takes those that are returned to the queue.

    A dequeue does not know which handlers its messages have. Where there are async messages, it takes what the loop can
    hold; where there were none lately, what both sides can hold, but for a look now and then. What one side cannot hold
    goes back for a second. ``keep``: nothing goes back, for a worker that is to work everything off.
    """

    def __init__(
        self,
        buffer: Buffer,
        loop: AsyncRunner,
        *,
        limits: HandlerLimits,
        keep: bool,
        board: Board,
        keeper: Keeper,
        using: str,
        put: Callable[[list[Execution]], None],
    ) -> None:
        self._buffer = buffer
        self._loop = loop
        self._limits = limits
        self._keep = keep
        self._board = board
        self._put = put
        self._suspects = Suspects(using, held=keeper.__len__, holds=keeper.holds, start=self._start)
        self._careful = CAREFUL
        self._careful_until = time.monotonic() + CAREFUL
        self._async_until = 0.0

    @property
    def running(self) -> int:
        return self._buffer.running + self._loop.running

    def room(self) -> int:
        """Return how many messages to dequeue: at most half of the free board, as those in the buffers need places."""
        return 0 if self.tend() else min(self._room(), self._board.free // 2)

    def tend(self) -> bool:
        """Start the message that waits to run alone, if it may. Returns whether nothing else may be taken."""
        return self._suspects.block()

    def _room(self) -> int:
        if self._limits.parked() >= MOST_PARKED:
            return 0
        kinds = handlers.kinds()
        if True not in kinds:
            return self._buffer.room()
        if False not in kinds:
            return self._loop.room()
        sides = (self._buffer, self._loop)
        if self._keep:
            return max(side.room() for side in sides) if all(side.most() for side in sides) else 0
        now = time.monotonic()
        recent = now < self._async_until
        if now >= self._careful_until and (recent or self._looks(now)):
            return max(side.room() for side in sides)
        # A side that has nothing to do does not hold back the other one.
        busy = [side for side in sides if side.busy()] if recent else []
        return min(side.room() for side in busy or sides)

    def _looks(self, now: float) -> bool:
        """Return whether to look for async messages behind the sync ones, while all slots are busy."""
        if self._buffer.running < self._buffer.concurrency:
            return False
        self._be_careful(now)
        return True

    def _be_careful(self, now: float) -> None:
        self._careful_until = now + self._careful
        self._careful = min(MOST_CAREFUL, 2 * self._careful)

    def put(self, deliveries: list[Delivery]) -> None:
        if others := self._suspects.keep(deliveries):
            self._start(others)

    def _start(self, deliveries: list[Delivery]) -> None:
        deliveries, back = self._limits.split(deliveries)
        for seconds, surplus in back.items():
            later = Defer(delay=timedelta(seconds=seconds))
            self._put([Execution(delivery, later) for delivery in surplus])
        asynchronous = [delivery for delivery in deliveries if has_async_handler(delivery)]
        if asynchronous:
            self._careful = CAREFUL
            self._async_until = time.monotonic() + RECENT
        if len(asynchronous) == len(deliveries):
            self._give(self._loop, deliveries)
            return
        sync = [delivery for delivery in deliveries if not has_async_handler(delivery)] if asynchronous else deliveries
        if asynchronous:
            self._give(self._loop, asynchronous)
        self._give(self._buffer, sync)

    def give_back(self, deliveries: list[Delivery]) -> None:
        """Return the messages to the queue. Their attempt does not count, unless the lease is lost already."""
        self._put([Execution(delivery, NOT_STARTED) for delivery in deliveries])

    def _give(self, side: Buffer | AsyncRunner, deliveries: list[Delivery]) -> None:
        most = len(deliveries) if self._keep else side.most()
        side.put(deliveries[:most])
        if surplus := deliveries[most:]:
            self._be_careful(time.monotonic())
            for delivery in surplus:
                self._limits.gone(delivery)
            self._put([Execution(delivery, LATER) for delivery in surplus])

    def drop(self, lost: Delivery) -> bool:
        """Forget a message that this worker has lost. Returns whether it was still waiting."""
        if self._suspects.drop(lost) or self._limits.drop(lost):
            return True
        waited = self._buffer.drop(lost) or self._loop.drop(lost)
        if waited:
            self._limits.gone(lost)
        return waited

    def cancel(self, delivery: Delivery) -> None:
        """Cancel the message: ask its handler to end if it runs, or do not start it."""
        if self.drop(delivery):
            self._put([Execution(delivery, NOT_STARTED)])
            return
        delivery.cancellation.request()
        self._loop.cancel(delivery)

    def close(self) -> list[Delivery]:
        """Start nothing more. Returns the messages that were not started."""
        return [*self._suspects.clear(), *self._buffer.close(), *self._loop.close(), *self._limits.clear()]

    def wait_until_idle(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        idle = self._buffer.wait_until_idle(timeout)
        return self._loop.wait_until_idle(max(0.0, deadline - time.monotonic())) and idle


def has_async_handler(delivery: Delivery) -> bool:
    handler = handlers.find(delivery.handler)
    return handler is not None and handler.asynchronous
