"""Run async handlers in an event loop, many at the same time, in one thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from django_pgqueue.delivery import Delivery, label
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.call.executor import Execution, missing_handler, stuck_execution
from django_pgqueue.worker.database import opened_connections, recover, without_query_log
from django_pgqueue.worker.role import Role
from django_pgqueue.worker.run.async_slot import AsyncSlot
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.runtime import Runtime
from django_pgqueue.worker.run.waiting_list import WaitingList

ROLE = "event loop"
# The time between two clean-ups of the connection that async handlers share, and after a failure the longest time for
# which no message starts until the clean-up is done. While nothing may start, the runner checks every RECHECK_SECONDS.
TIDY_SECONDS = 1.0
RECHECK_SECONDS = 0.25

logger = logging.getLogger("django_pgqueue.worker")


class AsyncRunner:
    """Run the async handlers of a worker; the dispatch puts their messages here.

    ``concurrency``: the most handlers that are under way. ``batch``: the most messages of one dequeue. ``limits``: of
    handlers with ``concurrency``. ``wake``: called when there is room for more messages. ``runtime``: services that it
    shares with the threads. Methods are for the thread of the loop, except those under "From any thread".
    """

    def __init__(
        self, concurrency: int, batch: int, *, limits: HandlerLimits, wake: Callable[[], None], runtime: Runtime
    ) -> None:
        self.concurrency = concurrency
        self.runtime = runtime
        self.context = copy_context()
        self.closed = False
        self._wake = wake
        self._limits = limits
        self._waiting = WaitingList(
            concurrency, batch, limits=limits, find=runtime.middleware.find, alike=runtime.middleware.alike
        )
        self._slots: set[AsyncSlot] = set()
        self._running = 0
        self._calls = self._ended = 0
        # Counted by another thread than the running ones.
        self._given_up = self._calls_given_up = 0
        self._finished: list[Execution] = []
        self._held_until = 0.0
        self._looks_again = False
        self._tidies = False
        self._tidy_task: asyncio.Task[None] | None = None
        self._stopping = False
        self._loop = asyncio.new_event_loop()
        self._thread = Role("event-loop", self._run, crashed=runtime.crashed)

    # From any thread.

    @property
    def running(self) -> int:
        """Return the number of messages that run, without those that were given up."""
        return self._running - self._given_up

    def room(self) -> int:
        """Return how many messages to dequeue now."""
        return self._waiting.room(self._calls - self._calls_given_up)

    @property
    def waiting(self) -> int:
        """Return how many messages wait to be started."""
        return len(self._waiting)

    def busy(self) -> bool:
        """Return whether messages run or wait here."""
        return bool(self.running or self._waiting)

    def free(self) -> int:
        """Return how many messages there is room for."""
        return self._waiting.free(self._calls - self._calls_given_up)

    def put(self, deliveries: list[Delivery]) -> None:
        """Add messages to the waiting list, and start a slot."""
        self._waiting.put(deliveries)
        self.call(self._start_slot)

    def resume(self) -> None:
        """Start messages whose handlers are not held any more."""
        if self._waiting.resume():
            self.call(self._start_slot)

    def drop(self, lost: Delivery) -> bool:
        """Remove a message whose lease is lost from the waiting list. Returns whether it was there."""
        return self._waiting.drop(lost)

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the messages that match and were not started, and return them."""
        return self._waiting.withdraw(matches)

    def close(self) -> list[Delivery]:
        """Start no more messages. Returns those that were not started."""
        self.closed = True
        return self._waiting.clear()

    def cancel(self, delivery: Delivery) -> None:
        """Cancel the task of the handler that runs this message, if one does."""
        for slot in self.runs():
            self.call(slot.cancel, delivery)

    def runs(self) -> Iterator[AsyncSlot]:
        """Yield the slots, each of which is the run of its present handler."""
        yield from tuple(self._slots)

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call the function in the thread of the loop, and return before that."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def start(self) -> None:
        """Start the thread of the loop."""
        self._thread.start()

    def stop(self, timeout: float = 5) -> None:
        """End the loop, and wait for its thread for up to ``timeout`` seconds."""
        self._stopping = True
        self.call(self._loop.stop)
        self._thread.join(timeout)

    # Called by slots, see the protocol Runner.

    def next(self) -> tuple[Handler, list[Delivery]] | None:
        """Return a handler and its messages to run now: one, or a batch; None: nothing may start.

        Messages without a handler in this process are put back on the way.
        """
        if self._held():
            return None
        while (found := self._waiting.take()) is not None:
            handler, deliveries = found
            if handler is not None:
                self._running += len(deliveries)
                self._calls += 1
                return handler, deliveries
            self.runtime.put([missing_handler(delivery) for delivery in deliveries])
        return None

    def waits(self, slot: AsyncSlot) -> None:
        """Record that the handler of this slot awaits something, and start another slot for waiting messages."""
        self.runtime.expect(slot.deadline)
        if self._waiting.startable:
            self._start_slot()

    def finished(self, handler: Handler, executions: list[Execution]) -> None:
        """Take the executions of a call that has ended; they are put to the completer in groups."""
        self._limits.failed(executions)
        if handler.concurrency is not None:
            self._follow(handler, len(executions), sum(execution.seconds for execution in executions))
        if not self._finished:
            self._loop.call_soon(self._flush)
        self._finished += executions
        self._running -= len(executions)
        self._calls -= 1
        self._ended += 1
        self._waiting.sized(handler)

    def given_up(self, slot: AsyncSlot, handler: Handler, deliveries: list[Delivery], seconds: float) -> None:
        """Settle the messages of a handler that has run for ``seconds`` and does not end; ask for a new process.

        It runs in the thread of the deadlines, because the handler may block the loop.
        """
        messages = ", ".join(map(label, deliveries))
        logger.error(
            "the handler %s did not end after its timeout (%s): the messages are retried, and this process is "
            "replaced. It must not block the event loop, nor swallow CancelledError", deliveries[0].handler, messages,
            extra={"event": "task_given_up", "message_id": deliveries[0].id, "queue": deliveries[0].queue},
        )  # fmt: skip
        self._given_up += len(deliveries)
        self._calls_given_up += 1
        self._slots.discard(slot)
        self._follow(handler, len(deliveries), self.runtime.timeout_of(handler))
        self.runtime.put([stuck_execution(delivery, seconds / len(deliveries)) for delivery in deliveries])
        self.runtime.recycle("an async handler hangs")

    def _follow(self, handler: Handler, count: int, seconds: float) -> None:
        """Record the end of a call of a handler with a limit, and start its next messages."""
        if self._waiting.call_ended(handler, count, seconds):
            self.call(self._start_slot)

    def left(self, slot: AsyncSlot) -> None:
        """Remove a slot that has ended, and start another one if messages wait."""
        self._slots.discard(slot)
        if self._waiting.startable:
            self._loop.call_soon(self._start_slot)

    # In the thread of the loop.

    def _start_slot(self) -> None:
        if not self._waiting.startable or len(self._slots) >= self.concurrency or self.closed:
            return
        slot = AsyncSlot(self)
        self._slots.add(slot)
        slot.task = self._loop.create_task(slot.work(), context=self.context.copy())

    def _held(self) -> bool:
        """Return whether nothing may start; while the database is away, a start would only use up attempts.

        It also plans the next check.
        """
        if self.closed:
            return True
        if self.runtime.outage.over and not (self._held_until and time.monotonic() < self._held_until):
            return False
        if not self._looks_again:
            self._looks_again = True
            self._loop.call_later(RECHECK_SECONDS, self._look_again)
        return True

    def _look_again(self) -> None:
        self._looks_again = False
        self._start_slot()

    def _flush(self) -> None:
        executions, self._finished = self._finished, []
        ended, self._ended = self._ended, 0
        self.runtime.put(executions)
        self._waiting.passed(ended, sum(execution.seconds for execution in executions))
        if self.room():
            self._wake()
        if any(execution.raised for execution in executions):
            # The shared connection may be broken, so it is cleaned up before the next message starts.
            self._held_until = time.monotonic() + TIDY_SECONDS
            self._tidy()
        elif not self._tidies:
            self._tidies = True
            self._loop.call_later(TIDY_SECONDS, self._tidy)

    def _tidy(self) -> None:
        if self._tidy_task is None or self._tidy_task.done():
            self._tidy_task = self._loop.create_task(self._tidy_up())

    async def _tidy_up(self) -> None:
        """Clean up the connections of the thread in which all async handlers use the ORM."""
        await sync_to_async(self._recover)()
        self._tidies = False
        self._held_until = 0.0
        self._start_slot()

    def _recover(self) -> None:
        runtime = self.runtime
        recover(opened_connections(), (), using=runtime.using, role=ROLE, outage=runtime.outage, sleep=self._sleep)

    def _sleep(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self.closed

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        # A task, because a worker with nothing to do may stop the loop before it is done. It reaches the thread of the
        # ORM before any handler does.
        self._tidy_task = self._loop.create_task(self._prepare())
        while not self._stopping:  # a handler may have stopped it
            self._loop.run_forever()
        self._loop.run_until_complete(self._wind_up())
        self._loop.close()

    async def _prepare(self) -> None:
        await sync_to_async(turn_off_query_logs)()

    async def _wind_up(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)
        # Without a timeout, which would cancel it: a handler may keep that thread, and its connection would stay.
        await sync_to_async(connections.close_all)()


def turn_off_query_logs() -> None:
    """Turn off ``connection.queries`` for all connections of the current thread."""
    for connection in connections.all():
        without_query_log(connection)
