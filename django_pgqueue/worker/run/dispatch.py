"""Send messages to the threads or to the event loop, by the kind of their handler."""

from __future__ import annotations

import threading
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

# For this time after an async message, more of them are expected.
RECENT_SECONDS = 10.0
# While the threads are busy, async messages may be ready behind sync ones. The dispatch looks for them at first after
# CAREFUL_SECONDS; the time doubles up to LONGEST_CAREFUL_SECONDS.
CAREFUL_SECONDS = 0.5
LONGEST_CAREFUL_SECONDS = 2.0
# With --once and --drain nothing goes back, so at most this many messages may wait for handlers with a limit.
MOST_PARKED_MESSAGES = 1000
# Gives a message back at once. If its cancellation was requested, the database archives it with the reason.
NOT_STARTED = Defer()
# Gives a message back for another worker, or for this one when there is room.
DEFER_ONE_SECOND = Defer(delay=timedelta(seconds=1))


class Dispatch:
    """Distribute the producer's messages, and compute for how many there is room.

    A dequeue does not know which handlers the messages have. If async messages came lately, it asks for as many as the
    event loop can hold; if not, for as many as both sides can hold, except for a larger look from time to time.
    Messages that one side cannot hold go back to the queue for a second.

    ``limits``: the limits of handlers with ``concurrency``. ``keep``: nothing goes back, for a worker with ``once`` or
    ``drain``. ``keeper``: says how many leases are held. ``using``: database alias. ``put``: takes the executions of
    messages that go back.
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
        self._careful = CAREFUL_SECONDS
        self._careful_until = time.monotonic() + CAREFUL_SECONDS
        self._async_until = 0.0
        # The sides that the last messages went to: they may have done all of them when the producer looks again.
        self._given: list[Buffer | AsyncRunner] = []
        # The withdrawals since the present dequeue began, which may bring more of such messages.
        self._withdrawn: list[Callable[[Delivery], bool]] = []
        # A message is either put before a withdrawal, which finds it, or after it.
        self._lock = threading.Lock()

    @property
    def running(self) -> int:
        """Return the number of messages that run in threads and in the event loop."""
        return self._buffer.running + self._loop.running

    def room(self) -> int:
        """Return how many messages to dequeue now.

        It is at most half of the board's free places: without a supervisor, a message needs its place only when it
        begins, and those in the buffers need places, too.
        """
        return 0 if self.tend() else min(self._room(), self._board.free // 2)

    def tend(self) -> bool:
        """Start the next suspect if it may start now. Returns whether no other message may be dequeued.

        The producer calls it before each dequeue, which knows of the breakers that have opened until now.
        """
        with self._lock:
            self._withdrawn.clear()
            return self._suspects.block()

    def _room(self) -> int:
        if self._limits.parked() >= MOST_PARKED_MESSAGES:
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
        used = [side for side in sides if side.busy() or side in self._given] if recent else sides
        return min(side.room() for side in used)

    def _looks(self, now: float) -> bool:
        """Return whether to look for async messages behind the sync ones, while all slots are busy."""
        if self._buffer.running < self._buffer.concurrency:
            return False
        self._be_careful(now)
        return True

    def _be_careful(self, now: float) -> None:
        self._careful_until = now + self._careful
        self._careful = min(LONGEST_CAREFUL_SECONDS, 2 * self._careful)

    def put(self, deliveries: list[Delivery]) -> None:
        """Take dequeued messages: start them, or keep those that must run alone."""
        others = self._suspects.keep(deliveries)
        with self._lock:
            if self._withdrawn:
                others = self._without_withdrawn(others)
            if others:
                self._start(others)

    def _start(self, deliveries: list[Delivery]) -> None:
        deliveries, back = self._limits.split(deliveries)
        for seconds, surplus in back.items():
            later = Defer(delay=timedelta(seconds=seconds))
            self._put([Execution(delivery, later) for delivery in surplus])
        if not deliveries:
            return
        names = asynchronous_names(deliveries)
        self._given = []
        if names:
            self._careful = CAREFUL_SECONDS
            self._async_until = time.monotonic() + RECENT_SECONDS
            self._give(self._loop, [delivery for delivery in deliveries if delivery.handler in names])
        if sync := [delivery for delivery in deliveries if delivery.handler not in names]:
            self._give(self._buffer, sync)

    def give_back(self, deliveries: list[Delivery]) -> None:
        """Return messages to the queue that were not started. Their attempt does not count."""
        self._put([Execution(delivery, NOT_STARTED) for delivery in deliveries])

    def _give(self, side: Buffer | AsyncRunner, deliveries: list[Delivery]) -> None:
        self._given.append(side)
        most = len(deliveries) if self._keep else side.most()
        side.put(deliveries[:most])
        if surplus := deliveries[most:]:
            self._be_careful(time.monotonic())
            for delivery in surplus:
                self._limits.gone(delivery)
            self._put([Execution(delivery, DEFER_ONE_SECOND) for delivery in surplus])

    def drop(self, lost: Delivery) -> bool:
        """Remove a message whose lease is lost. Returns whether it was still waiting."""
        if self._suspects.drop(lost) or self._limits.drop(lost):
            return True
        waited = self._buffer.drop(lost) or self._loop.drop(lost)
        if waited:
            self._limits.gone(lost)
        return waited

    def cancel(self, delivery: Delivery) -> None:
        """Cancel a message: if it waits, return it to the queue, which archives it; else ask its handler to end."""
        if self.drop(delivery):
            self._put([Execution(delivery, NOT_STARTED)])
            return
        delivery.cancellation.request()
        self._loop.cancel(delivery)

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the messages that match and were not started, and return them. From any thread.

        Those that a dequeue brings which is under way go back, too.
        """
        with self._lock:
            self._withdrawn.append(matches)
            # The limits first: a message that leaves a buffer makes room for the next one of its handler.
            parked = [*self._suspects.withdraw(matches), *self._limits.withdraw(matches)]
            waiting = [*self._buffer.withdraw(matches), *self._loop.withdraw(matches)]
        for delivery in waiting:
            self._limits.gone(delivery)
        return [*parked, *waiting]

    def _without_withdrawn(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Give back what was withdrawn while the dequeue was under way, also new suspects. Returns the others."""

        def is_withdrawn(delivery: Delivery) -> bool:
            return any(matches(delivery) for matches in self._withdrawn)

        if back := [*self._suspects.withdraw(is_withdrawn), *filter(is_withdrawn, deliveries)]:
            self.give_back(back)
        return [delivery for delivery in deliveries if not is_withdrawn(delivery)]

    def close(self) -> list[Delivery]:
        """Start no more messages. Returns those that were not started."""
        return [*self._suspects.clear(), *self._buffer.close(), *self._loop.close(), *self._limits.clear()]

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until no message runs or waits. Returns whether that is so."""
        deadline = time.monotonic() + timeout
        idle = self._buffer.wait_until_idle(timeout)
        return self._loop.wait_until_idle(max(0.0, deadline - time.monotonic())) and idle


def asynchronous_names(deliveries: list[Delivery]) -> set[str]:
    """Return the names of those handlers of the deliveries that are async. This process may lack some of the others."""
    known = map(handlers.find, {delivery.handler for delivery in deliveries})
    return {handler.name for handler in known if handler is not None and handler.asynchronous}
