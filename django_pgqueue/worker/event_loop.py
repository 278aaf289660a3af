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
from django_pgqueue.worker.async_slot import AsyncSlot
from django_pgqueue.worker.backlog import Backlog, Taken
from django_pgqueue.worker.database import opened_connections, recover, without_query_log
from django_pgqueue.worker.executor import Execution, stuck_execution
from django_pgqueue.worker.role import Role
from django_pgqueue.worker.runtime import Runtime

ROLE = "event loop"
# The time between two clean-ups of the connection that async handlers share, and after a failure the longest time for
# which no message starts until the clean-up is done. While nothing may start, the runner checks every RECHECK_SECONDS.
TIDY_SECONDS = 1.0
RECHECK_SECONDS = 0.25

logger = logging.getLogger("django_pgqueue.worker")


class AsyncRunner:
    """Run the async handlers of a worker.

    ``backlog``: has the messages; it calls :meth:`ready`. ``runtime``: services that it shares with the threads.
    Methods are for the thread of the loop, except those under "From any thread".
    """

    def __init__(self, backlog: Backlog, *, runtime: Runtime) -> None:
        self.runtime = runtime
        self.context = copy_context()
        self._backlog = backlog
        self._slots: set[AsyncSlot] = set()
        self._finished: list[Execution] = []
        self._held_until = 0.0
        self._looks_again = False
        self._tidies = False
        self._tidy_task: asyncio.Task[None] | None = None
        self._stopping = False
        self._loop = asyncio.new_event_loop()
        self._thread = Role("event-loop", self._run, crashed=runtime.crashed)

    # From any thread.

    def ready(self) -> None:
        """Start a slot for messages that may start."""
        self.call(self._start_slot)

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

    def next(self) -> Taken | None:
        """Return a handler and its messages to run now: one, or a batch; None: nothing may start."""
        return None if self._held() else self._backlog.take()

    def waits(self, slot: AsyncSlot) -> None:
        """Record that the handler of this slot awaits something, and start another slot for waiting messages."""
        self.runtime.expect(slot.deadline)
        if self._backlog.startable:
            self._start_slot()

    def finished(self, handler: Handler | None, executions: list[Execution]) -> None:
        """Take the executions of a call that has ended; they are put to the completer in groups."""
        if not self._finished:
            self._loop.call_soon(self._flush)
        self._finished += executions
        self.runtime.failed(executions)
        self._backlog.finished(handler, len(executions), sum(execution.seconds for execution in executions))

    def given_up(self, slot: AsyncSlot, handler: Handler | None, deliveries: list[Delivery], seconds: float) -> None:
        """Settle the messages of a handler that has run for ``seconds`` and does not end; ask for a new process.

        It runs in the main thread, because the handler may block the loop.
        """
        messages = ", ".join(map(label, deliveries))
        logger.error(
            "the handler %s did not end after its timeout (%s): the messages are retried, and this process is "
            "replaced. It must not block the event loop, nor swallow CancelledError", deliveries[0].handler, messages,
            extra={"event": "task_given_up", "message_id": deliveries[0].id, "queue": deliveries[0].queue},
        )  # fmt: skip
        self._slots.discard(slot)
        self._backlog.finished(handler, len(deliveries), self.runtime.timeout_of(handler))
        self.runtime.put([stuck_execution(delivery, seconds / len(deliveries)) for delivery in deliveries])
        self.runtime.recycle("an async handler hangs")

    def left(self, slot: AsyncSlot) -> None:
        """Remove a slot that has ended, and start another one if messages wait."""
        self._slots.discard(slot)
        if self._backlog.startable:
            self._loop.call_soon(self._start_slot)

    # In the thread of the loop.

    def _start_slot(self) -> None:
        if not self._backlog.startable or len(self._slots) >= self._backlog.concurrency or self._backlog.closed:
            return
        slot = AsyncSlot(self)
        self._slots.add(slot)
        slot.task = self._loop.create_task(slot.work(), context=self.context.copy())

    def _held(self) -> bool:
        """Return whether nothing may start; while the database is away, a start would only use up attempts.

        It also plans the next check.
        """
        if self._backlog.closed:
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
        self.runtime.put(executions)
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
        return self._backlog.closed

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
