"""Send messages to the threads or to the event loop, by the kind of their handler, and say how many can start.

A message runs alone at its last attempt if its process died at the attempt before: it is a suspect. When a process
dies, each message that it had begun counts an attempt, because any of them may be the cause. Otherwise a message that
kills its process would make dead letters of the messages that always run beside it. When they run alone, those
complete, and only the culprit becomes a dead letter (poison).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from django.db import Error

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.breakers import open_breakers
from django_pgqueue.models import Message
from django_pgqueue.outcomes import Defer, Retry
from django_pgqueue.worker import numbers
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.buffer import Buffer
from django_pgqueue.worker.executor import Execution
from django_pgqueue.worker.middleware import Middleware
from django_pgqueue.worker.runtime import Runtime

# The error types of an attempt during which the process died.
DEATH_TYPES = {"WorkerDied", "LeaseExpired"}

logger = logging.getLogger("django_pgqueue.worker")


class Suspects:
    """Keep suspects back until they can run alone; the dispatch passes each message through it.

    ``using``: database alias. ``start``: starts deliveries. The dispatch calls all methods but :meth:`find` under its
    lock.
    """

    def __init__(self, using: str, board: Board, *, start: Callable[[list[Delivery]], None]) -> None:
        self._using = using
        self._board = board
        self._start = start
        self._waiting: deque[Delivery] = deque()
        self._since = 0.0
        self._alone: Delivery | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def find(self, deliveries: list[Delivery]) -> set[int]:
        """Return the ids of the suspects among the deliveries; it asks the database for those at their last attempt."""
        last = [delivery.id for delivery in deliveries if delivery.attempt > 1 and delivery.last_attempt]
        if not last:
            return set()
        try:
            rows = list(Message.objects.using(self._using).filter(id__in=last).values_list("id", "errors"))
        except Error:
            # The messages are leased already and must not be lost, so they run beside the others.
            logger.warning(
                "could not read which of the messages %s were running when a process died: all start beside others",
                last, exc_info=True, extra={"event": "suspects_unknown"},
            )  # fmt: skip
            return set()
        return {message for message, errors in rows if errors and errors[-1].get("type") in DEATH_TYPES}

    def keep(self, suspects: list[Delivery]) -> None:
        """Keep the suspects back until they may start."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.extend(suspects)
        extra = {"event": "suspects", "message_ids": [delivery.id for delivery in suspects]}
        logger.info(
            "%d message(s) at their last attempt start alone: a process died while they ran before", len(suspects),
            extra=extra,
        )  # fmt: skip

    def block(self) -> bool:
        """Start the next suspect if it may start now. Returns whether no other message may be dequeued."""
        now = time.monotonic()
        alone = self._alone
        if alone is not None and self._board.holds(alone) and now < self._since + numbers.LONGEST_ALONE_SECONDS:
            return True
        if alone is not None:
            self._alone, self._since = None, now
        if not self._waiting:
            return False
        if len(self._board) <= len(self._waiting) or now >= self._since + numbers.SUSPECT_WAIT_SECONDS:
            delivery = self._waiting.popleft()
            self._alone, self._since = delivery, now
            self._start([delivery])
        return True

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the suspects that match and were not started, and return them."""
        found = [delivery for delivery in self._waiting if matches(delivery)]
        for delivery in found:
            self._waiting.remove(delivery)
        return found


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

    Nothing starts of a handler with a breaker while a failure of it is not written, because that may open its breaker.
    With ``once`` and ``drain``, nothing goes back.

    ``threads``, ``loop``: the buffers of the two sides. ``guarded``: returns the names of the handlers with a breaker.
    ``put``: takes the executions of messages that go back.
    """

    def __init__(
        self,
        runtime: Runtime,
        middleware: Middleware,
        *,
        guarded: Callable[[], frozenset[str]],
        put: Callable[[list[Execution]], None],
    ) -> None:
        options = runtime.options
        self._options = options
        self._board = runtime.board
        self._ledger = runtime.ledger
        self._guarded = guarded
        self._put = put
        self._keep = options.once or options.drain
        # The messages whose failures are not written, by the handler.
        self._unwritten: dict[str, set[int]] = {}
        self.threads, self.loop = self._sides = tuple(
            Buffer(
                concurrency,
                options.batch,
                keep=self._keep,
                held=self._unwritten,
                wake=runtime.alarm.set,
                find=middleware.find,
                alike=middleware.alike,
            )
            for concurrency in (options.concurrency, options.async_concurrency)
        )
        self._suspects = Suspects(options.using, self._board, start=self._start)
        # The side that all of the last messages went to, and their number.
        self._run: tuple[Buffer | None, int] = (None, 0)
        # So many of the messages that were asked for can start, whatever their handlers are.
        self._fits = 1
        # The withdrawals since the present dequeue began, which may bring more of such messages.
        self._withdrawn: list[Callable[[Delivery], bool]] = []
        self._closed = False
        # A message is either put before it is withdrawn or dropped, which finds it, or after that.
        self._lock = threading.Lock()

    @property
    def running(self) -> int:
        """Return the number of messages that run in threads and in the event loop."""
        return self.threads.running + self.loop.running

    def wanted(self, *, settled: bool = False) -> Wanted:
        """Say what to dequeue now. Starts the next suspect, if it may start now.

        ``settled``: a slot is free only when the outcome of its last message is written; for a queue that shares its
        leases, which would count for a channel that does not occupy a slot any more.
        """
        if self.tend():
            return Wanted(0)
        most = self._board.free
        if self._keep:
            most = min(most, numbers.MOST_KEPT_MESSAGES - sum(side.unstarted for side in self._sides))
        wanted = self._wanted()
        ended = 0
        if settled:  # messages whose handlers have ended, and whose outcomes are not written
            unstarted = len(self._suspects) + sum(side.unstarted for side in self._sides)
            ended = max(0, len(self._board) - unstarted - self.running)
        return wanted._replace(messages=max(0, min(wanted.messages - ended, most)))

    def tend(self) -> bool:
        """Start the next suspect if it may start now. Returns whether no other message may be dequeued.

        The producer calls it before each dequeue, which knows of the breakers that have opened until now.
        """
        with self._lock:
            self._withdrawn.clear()
            return self._suspects.block()

    def _wanted(self) -> Wanted:
        kinds = handlers.kinds()
        full = {*self.threads.full(), *self.loop.full()}
        only = [name for name in handlers.names() if name not in full] if full else None
        if len(kinds) < 2:
            self._fits = (self.loop if True in kinds else self.threads).room()
            return Wanted(self._fits, only)
        threads, loop = self.threads.free(), self.loop.free()
        if not threads or not loop:
            self._fits = max(threads, loop)
            known = handlers.names() if only is None else only
            names = [name for name in known if handlers.get(name).asynchronous == bool(loop)]
            return Wanted(self._fits if names else 0, names, strict=True)
        # A side that has nothing to do does not hold back the other one.
        for side in self._sides:
            if side.busy and not side.room():
                return Wanted(0)
        self._fits = min(threads, loop)
        last, count = self._run
        return Wanted(max(self._fits, 0 if last is None else min(last.free(), count)), only)

    def put(self, deliveries: list[Delivery]) -> None:
        """Take dequeued messages: start them, or keep those that must run alone.

        Those of a dequeue that ends after :meth:`close` go back.
        """
        found = self._suspects.find(deliveries)
        others = [delivery for delivery in deliveries if delivery.id not in found]
        with self._lock:
            if self._closed:
                self.give_back(deliveries)
                return
            if found:
                self._suspects.keep([delivery for delivery in deliveries if delivery.id in found])
            if self._withdrawn:
                # What was withdrawn while the dequeue was under way goes back, also new suspects.
                def is_withdrawn(delivery: Delivery) -> bool:
                    return any(matches(delivery) for matches in self._withdrawn)

                if back := [*self._suspects.withdraw(is_withdrawn), *filter(is_withdrawn, others)]:
                    self.give_back(back)
                others = [delivery for delivery in others if not is_withdrawn(delivery)]
            if others:
                self._start(others)

    def _start(self, deliveries: list[Delivery]) -> None:
        tasks: list[Delivery] = []
        calls: list[Delivery] = []
        for delivery in deliveries:
            handler = handlers.find(delivery.handler)
            (tasks if handler is not None and handler.asynchronous else calls).append(delivery)
        for side, given, others in ((self.loop, tasks, calls), (self.threads, calls, tasks)):
            if not given:
                continue
            # The pace may have slowed down since it was asked; what was asked for then fits.
            most = len(given) if self._keep else max(1, self._fits, side.free())
            for seconds, surplus in side.put(given, most).items():
                later = Defer(delay=timedelta(seconds=seconds)) if seconds else NOT_STARTED
                self._put([Execution(delivery, later) for delivery in surplus])
            before, count = self._run
            self._run = (None, 0) if others else (side, len(given) + (count if before is side else 0))

    def failed(self, executions: list[Execution]) -> None:
        """Hold the handlers with a breaker of those executions that are failures, until they are written.

        It is called before the thread of a handler takes its next message.
        """
        if guarded := self._guarded():
            for execution in executions:
                delivery = execution.delivery
                if isinstance(execution.outcome, Retry) and delivery.handler in guarded:
                    with self._lock:
                        self._unwritten.setdefault(delivery.handler, set()).add(delivery.id)

    def settled(self, executions: Iterable[Execution]) -> None:
        """Let handlers go on that were held by failures among the executions, which are written.

        Before that, messages of breakers that are open now go back: this does not wait for a notification.
        """
        if not self._unwritten:
            return
        deliveries = [execution.delivery for execution in executions]
        failures = [each for each in deliveries if each.id in self._unwritten.get(each.handler, ())]
        if not failures:
            return
        # If the database is away, no message starts, and the listener asks for open breakers afterwards.
        with suppress(Error, PgQueueError):
            for opened in open_breakers(failures, using=self._options.using):
                self.breaker_opened(*opened)
        with self._lock:
            for delivery in failures:
                left = self._unwritten.get(delivery.handler, set())
                left.discard(delivery.id)
                if not left:
                    self._unwritten.pop(delivery.handler, None)
        for side in self._sides:
            side.resume()

    def give_back(self, deliveries: list[Delivery]) -> None:
        """Return messages to the queue that were not started. Their attempt does not count."""
        self._put([Execution(delivery, NOT_STARTED) for delivery in deliveries])

    def drop(self, lost: Delivery) -> bool:
        """Remove a message whose lease is lost. Returns whether it was still waiting."""
        with self._lock:
            mine = self._suspects.withdraw(lambda delivery: delivery is lost)
            return bool(mine) or any(side.drop(lost) for side in self._sides)

    def hold(self, deliveries: list[Delivery], since: float) -> None:
        """Hold the leases of dequeued messages. ``since``: time.monotonic() before the dequeue."""
        if lost := self._board.hold(deliveries, since):
            self._forget(lost)

    def lost(self, leases: list[tuple[int, int]]) -> None:
        """Forget messages whose leases are lost. ``leases``: ids and the numbers of their tokens."""
        self._forget(self._board.lost(leases))

    def _forget(self, lost: list[Delivery]) -> None:
        for delivery in lost:
            waited = self.drop(delivery)
            effects = "it had not been started" if waited else "its handler runs on, its outcome will not count"
            self._ledger.lost([delivery], effects=effects)

    def cancelled(self, leases: list[tuple[int, int]]) -> list[Delivery]:
        """Return waiting messages that are to be cancelled to the queue, which archives them. Returns the others."""
        known = self._board.known(leases)
        waiting = [delivery for delivery in known if self.drop(delivery)]
        if waiting:
            self.give_back(waiting)
        return [delivery for delivery in known if delivery not in waiting]

    def breaker_opened(self, handler: str, queue: str | None, channel: str | None) -> None:
        """Give back the messages that wait here and not in the database; a failing handler would use up attempts.

        ``queue``, ``channel``: where the breaker is; None if it is that of the handler.
        """

        def waits(delivery: Delivery) -> bool:
            here = channel is None or (delivery.queue, delivery.channel) == (queue, channel)
            return delivery.handler == handler and here

        self._give_back_unstarted(self.withdraw(waits), f": the breaker of {handler} is open")

    def _give_back_unstarted(self, waiting: list[Delivery], why: str = "") -> None:
        if waiting:
            self.give_back(waiting)
            extra = {"event": "given_back", "worker": self._options.name}
            logger.info("gave %d message(s) back that were not started%s", len(waiting), why, extra=extra)

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the messages that match and were not started, and return them. From any thread.

        Those that a dequeue brings which is under way go back, too.
        """
        with self._lock:
            self._withdrawn.append(matches)
            found = self._suspects.withdraw(matches)
            for side in self._sides:
                found += side.withdraw(matches)
        return found

    def close(self) -> None:
        """Start no more messages, and give back those that were not started."""
        with self._lock:
            self._closed = True
            waiting = self._suspects.withdraw(lambda delivery: True)
            for side in self._sides:
                waiting += side.close()
        self._give_back_unstarted(waiting)
