"""The event loop: one thread that runs async handlers, many at the same time."""

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
from django_pgqueue.worker.database import recover, without_query_log
from django_pgqueue.worker.role import Role
from django_pgqueue.worker.run.async_slot import AsyncSlot
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.runtime import Runtime
from django_pgqueue.worker.run.waiting_list import WaitingList

ROLE = "event loop"
# Seconds between two looks at the connection of handlers that use the ORM, and how long such a look may keep others.
TIDY_EVERY = 1.0
LOOK_AGAIN = 0.25

logger = logging.getLogger("django_pgqueue.worker")


class AsyncRunner:
    """``concurrency``: how many handlers may be under way. ``wake``: called when there is room for more messages.

    The producer puts and other threads ask; everything else happens in the thread of the loop.
    """

    def __init__(
        self, concurrency: int, batch: int, *, limits: HandlerLimits, wake: Callable[[], None], runtime: Runtime
    ) -> None:
        self.concurrency = concurrency
        self.runtime = runtime
        self.context = copy_context()
        self.closed = False
        self._wake = wake
        self._waiting = WaitingList(
            concurrency, batch, limits=limits, find=runtime.middleware.find, alike=runtime.middleware.alike
        )
        self._slots: set[AsyncSlot] = set()
        self._running = 0
        # Counted by another thread than the running ones.
        self._given_up = 0
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
        return self._running - self._given_up

    def room(self) -> int:
        return self._waiting.room(self.running)

    def busy(self) -> bool:
        return bool(self.running or self._waiting)

    def most(self) -> int:
        return self._waiting.most(self.running)

    def put(self, deliveries: list[Delivery]) -> None:
        self._waiting.put(deliveries)
        self.call(self._start_slot)

    def drop(self, lost: Delivery) -> bool:
        """Forget a message that this worker has lost. Returns whether it was still waiting."""
        return self._waiting.drop(lost)

    def close(self) -> list[Delivery]:
        """Start nothing more. Returns the messages that were not started."""
        self.closed = True
        return self._waiting.clear()

    def cancel(self, delivery: Delivery) -> None:
        for slot in self.runs():
            self.call(slot.cancel, delivery)

    def wait_until_idle(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while self.running or self._waiting:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def runs(self) -> Iterator[AsyncSlot]:
        yield from tuple(self._slots)

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call the function soon, in the thread of the loop."""
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5) -> None:
        self._stopping = True
        self.call(self._loop.stop)
        self._thread.join(timeout)

    # For slots.

    def next(self) -> tuple[Handler, list[Delivery]] | None:
        """Return the messages to run now: one, or a batch of one handler; None: nothing may start."""
        if self._held():
            return None
        while (found := self._waiting.take()) is not None:
            handler, deliveries = found
            if handler is not None:
                self._running += len(deliveries)
                return handler, deliveries
            self.runtime.put([missing_handler(delivery) for delivery in deliveries])
        return None

    def waits(self, slot: AsyncSlot) -> None:
        """Start another slot, because the handler of this one waits."""
        self.runtime.expect(slot.deadline)
        if self._waiting:
            self._start_slot()

    def finished(self, handler: Handler, executions: list[Execution]) -> None:
        if handler.concurrency is not None:
            self._follow(handler, len(executions), sum(execution.seconds for execution in executions))
        if not self._finished:
            self._loop.call_soon(self._flush)
        self._finished += executions
        self._running -= len(executions)

    def given_up(self, slot: AsyncSlot, handler: Handler, deliveries: list[Delivery]) -> None:
        """From the thread of the deadlines: the loop may be blocked."""
        messages = ", ".join(map(label, deliveries))
        logger.error(
            "the handler %s does not end (%s): it is given up", deliveries[0].handler, messages,
            extra={"event": "task_given_up", "message_id": deliveries[0].id, "queue": deliveries[0].queue},
        )  # fmt: skip
        self._given_up += len(deliveries)
        self._slots.discard(slot)
        self._follow(handler, len(deliveries), self.runtime.timeout_of(handler))
        self.runtime.put([stuck_execution(delivery) for delivery in deliveries])
        self.runtime.recycle("an async handler hangs")

    def _follow(self, handler: Handler, count: int, seconds: float) -> None:
        """Record the end of a call: other messages of a handler with a limit may start."""
        if self._waiting.call_ended(handler, count, seconds):
            self.call(self._start_slot)

    def left(self, slot: AsyncSlot) -> None:
        self._slots.discard(slot)
        if self._waiting:
            self._loop.call_soon(self._start_slot)

    # In the thread of the loop.

    def _start_slot(self) -> None:
        if not self._waiting or len(self._slots) >= self.concurrency or self.closed:
            return
        slot = AsyncSlot(self)
        self._slots.add(slot)
        slot.task = self._loop.create_task(slot.work(), context=self.context.copy())

    def _held(self) -> bool:
        """Return whether nothing may start: a start while the database is away would only use up attempts."""
        if self.closed:
            return True
        if self.runtime.outage.over and not (self._held_until and time.monotonic() < self._held_until):
            return False
        if not self._looks_again:
            self._looks_again = True
            self._loop.call_later(LOOK_AGAIN, self._look_again)
        return True

    def _look_again(self) -> None:
        self._looks_again = False
        self._start_slot()

    def _flush(self) -> None:
        executions, self._finished = self._finished, []
        self.runtime.put(executions)
        self._waiting.passed(len(executions), sum(execution.seconds for execution in executions))
        if self.room():
            self._wake()
        if any(execution.raised for execution in executions):
            # Its connection may be broken. Those that come next shall not find it.
            self._held_until = time.monotonic() + TIDY_EVERY
            self._tidy()
        elif not self._tidies:
            self._tidies = True
            self._loop.call_later(TIDY_EVERY, self._tidy)

    def _tidy(self) -> None:
        if self._tidy_task is None or self._tidy_task.done():
            self._tidy_task = self._loop.create_task(self._tidy_up())

    async def _tidy_up(self) -> None:
        """Handlers that use the ORM share one thread, and with it one connection for each database."""
        await sync_to_async(recover)((), self.runtime.using, ROLE, self.runtime.outage, sleep=self._sleep)
        self._tidies = False
        self._held_until = 0.0
        self._start_slot()

    def _sleep(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self.closed

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        # A task, because a worker with nothing to do may stop the loop before it is done. It is the first to reach the
        # thread of the ORM, before any handler.
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
    for connection in connections.all():
        without_query_log(connection)
