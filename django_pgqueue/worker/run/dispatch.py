"""Send messages to the threads or to the event loop, by the kind of their handler."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from django.db import Error

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.breakers import OpenBreaker, open_breakers
from django_pgqueue.outcomes import Defer
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.call.executor import Execution
from django_pgqueue.worker.run.async_runner import AsyncRunner
from django_pgqueue.worker.run.buffer import Buffer
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.suspects import Suspects

# With --once and --drain nothing goes back, so at most this many messages may wait for handlers with a limit.
MOST_PARKED_MESSAGES = 1000
# Gives a message back at once. If its cancellation was requested, the database archives it with the reason.
NOT_STARTED = Defer()


class Wanted(NamedTuple):
    """Say what to dequeue now.

    ``messages``: how many; 0: none. ``only``: the handlers that have a free slot; None: all of them. ``strict``:
    messages of the others cannot start for certain. If not, they may be asked for when there is nothing else.
    """

    messages: int
    only: list[str] | None = None
    strict: bool = False


class Dispatch:
    """Distribute the producer's messages, and say which ones can start.

    A plain dequeue does not know which handlers the messages have. So it takes what either side can start, whichever
    handlers they have; and more than that for one side, as long as the last messages were all for this side. While one
    side is full, only messages of the other one are asked for.

    ``limits``: the limits of handlers with ``concurrency``. ``keep``: nothing goes back, for a worker with ``once`` or
    ``drain``. ``board``: says how many leases are held. ``using``: database alias. ``put``: takes the executions of
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
        using: str,
        put: Callable[[list[Execution]], None],
    ) -> None:
        self._buffer = buffer
        self._loop = loop
        self._limits = limits
        self._keep = keep
        self._board = board
        self._put = put
        self._using = using
        self._suspects = Suspects(using, held=board.__len__, holds=board.holds, start=self._start)
        # The side that all of the last messages went to, and their number.
        self._run: tuple[Buffer | AsyncRunner, int] = (buffer, 0)
        # So many of the messages that were asked for can start, whatever their handlers are.
        self._fits = 1
        # The withdrawals since the present dequeue began, which may bring more of such messages.
        self._withdrawn: list[Callable[[Delivery], bool]] = []
        # A message is either put before a withdrawal, which finds it, or after it.
        self._lock = threading.Lock()

    @property
    def running(self) -> int:
        """Return the number of messages that run in threads and in the event loop."""
        return self._buffer.running + self._loop.running

    def wanted(self, *, settled: bool = False) -> Wanted:
        """Say what to dequeue now.

        ``settled``: a slot is free only when the outcome of its last message is written; for a queue that shares its
        leases, which would count for a channel that does not occupy a slot any more.

        It is at most half of the board's free places: without a supervisor, a message needs its place only when it
        begins, and those in the buffers need places, too.
        """
        if self.tend() or self._limits.parked() >= MOST_PARKED_MESSAGES:
            return Wanted(0)
        wanted = self._wanted()
        messages = wanted.messages - (self._ended() if settled else 0)
        return wanted._replace(messages=max(0, min(messages, self._board.free // 2)))

    def _ended(self) -> int:
        """Return how many messages have ended, and their outcomes are not written."""
        unstarted = len(self._suspects) + self._limits.parked() + self._buffer.waiting + self._loop.waiting
        return max(0, len(self._board) - unstarted - self.running)

    def tend(self) -> bool:
        """Start the next suspect if it may start now. Returns whether no other message may be dequeued.

        The producer calls it before each dequeue, which knows of the breakers that have opened until now.
        """
        with self._lock:
            self._withdrawn.clear()
            return self._suspects.block()

    def _wanted(self) -> Wanted:
        kinds = handlers.kinds()
        full = self._limits.full()
        only = [name for name in handlers.names() if name not in full] if full else None
        if len(kinds) < 2:
            self._fits = (self._loop if True in kinds else self._buffer).room()
            return Wanted(self._fits, only)
        threads, loop = self._buffer.free(), self._loop.free()
        if not threads or not loop:
            self._fits = max(threads, loop)
            known = handlers.names() if only is None else only
            names = [name for name in known if handlers.get(name).asynchronous == bool(loop)]
            return Wanted(self._fits if names else 0, names, strict=True)
        # A side that has nothing to do does not hold back the other one.
        if not all(side.room() for side in (self._buffer, self._loop) if side.busy()):
            return Wanted(0)
        self._fits = min(threads, loop)
        side, count = self._run
        return Wanted(max(self._fits, min(side.free(), count)), only)

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
        tasks = [delivery for delivery in deliveries if delivery.handler in names]
        calls = [delivery for delivery in deliveries if delivery.handler not in names]
        for side, given, others in ((self._loop, tasks, calls), (self._buffer, calls, tasks)):
            if given:
                self._give(side, given)
                if not others:
                    before, count = self._run
                    self._run = (side, len(given) + (count if before is side else 0))
        if tasks and calls:
            self._run = (self._buffer, 0)

    def settled(self, executions: list[Execution], on_breaker: Callable[[OpenBreaker], None]) -> None:
        """Let handlers go on that were held by failures among the executions, which are written.

        ``on_breaker``: called before that with each breaker that is open now, to give its messages back. It does not
        wait for a notification.
        """
        failures = self._limits.held_by(executions)
        if not failures:
            return
        # If the database is away, no message starts, and the listener asks for open breakers afterwards.
        with suppress(Error, PgQueueError):
            for opened in open_breakers(failures, using=self._using):
                on_breaker(opened)
        self._limits.written(failures)
        self._buffer.resume()
        self._loop.resume()

    def give_back(self, deliveries: list[Delivery]) -> None:
        """Return messages to the queue that were not started. Their attempt does not count."""
        self._put([Execution(delivery, NOT_STARTED) for delivery in deliveries])

    def _give(self, side: Buffer | AsyncRunner, deliveries: list[Delivery]) -> None:
        # The pace may have slowed down since it was asked; what was asked for then fits.
        most = len(deliveries) if self._keep else max(1, self._fits, side.free())
        side.put(deliveries[:most])
        if surplus := deliveries[most:]:
            for delivery in surplus:
                self._limits.gone(delivery)
            self.give_back(surplus)

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


def asynchronous_names(deliveries: list[Delivery]) -> set[str]:
    """Return the names of those handlers of the deliveries that are async. This process may lack some of the others."""
    known = map(handlers.find, {delivery.handler for delivery in deliveries})
    return {handler.name for handler in known if handler is not None and handler.asynchronous}
