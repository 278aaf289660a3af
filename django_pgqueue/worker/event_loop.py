"""Run async handlers in an event loop, many at the same time, in one thread.

They run one after the other in slots, which are tasks of the loop. A handler that never awaits costs neither a task nor
a turn of the loop: its slot goes on with the next message at once. When a handler awaits something, another slot is
started, up to ``async_concurrency``.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerTimeout
from django_pgqueue.handlers import Handler
from django_pgqueue.outcomes import Cancelled, Outcome
from django_pgqueue.worker import numbers
from django_pgqueue.worker.buffer import Buffer, Taken
from django_pgqueue.worker.database import recover, without_query_log
from django_pgqueue.worker.executor import (
    Execution,
    execute_async,
    failed_execution,
    missing_handler,
)
from django_pgqueue.worker.interruption import RunTicket, leave_if_forked
from django_pgqueue.worker.runtime import Role, Runtime

ROLE = "event loop"


class AsyncRunner(Role):
    """Run the async handlers of a worker.

    ``buffer``: has the messages; it calls :meth:`ready`.
    Methods are for the thread of the loop, except those under "From any thread".
    """

    def __init__(self, buffer: Buffer, runtime: Runtime) -> None:
        super().__init__("event-loop", self._run, crashed=runtime.crashed)
        self.runtime = runtime
        self.context = copy_context()
        self._buffer = buffer
        buffer.on_ready = self.ready
        self._slots: set[AsyncSlot] = set()
        self._held_until = 0.0
        self._looks_again = False
        # Starts the messages that gather.
        self._gathered: asyncio.TimerHandle | None = None
        self._tidies = False
        self._tidy_task: asyncio.Task[None] | None = None
        self._stopping = False
        self._loop = asyncio.new_event_loop()

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

    def stop(self, timeout: float = 5) -> None:
        """End the loop, and wait for its thread for up to ``timeout`` seconds."""
        self._stopping = True
        self.call(self._loop.stop)
        self.join(timeout)

    # Called by slots.

    def next(self) -> Taken | None:
        """Return a handler and its messages to run now: one, or a batch; None: nothing may start."""
        return None if self._held() else self._buffer.take()

    def waits(self, slot: AsyncSlot) -> None:
        """Record that the handler of this slot awaits something, and start another slot for waiting messages."""
        self.runtime.expect(slot.deadline)
        if self._buffer.startable:
            self._start_slot()

    def finished(self, handler: Handler | None, executions: list[Execution]) -> None:
        """Put the executions of a call that has ended."""
        self.runtime.put(executions)
        self._buffer.finished(handler, len(executions), sum(execution.seconds for execution in executions))
        if any(execution.raised for execution in executions):
            # The shared connection may be broken, so it is cleaned up before the next message starts.
            self._held_until = time.monotonic() + numbers.TIDY_SECONDS
            self._tidy()
        elif not self._tidies:
            self._tidies = True
            self._loop.call_later(numbers.TIDY_SECONDS, self._tidy)

    def give_up(self, slot: AsyncSlot, handler: Handler | None, ticket: RunTicket) -> None:
        """Settle the messages of a handler that does not end, and ask for a new process.

        It runs in the main thread, because the handler may block the loop.
        """
        advice = "It must not block the event loop, nor swallow CancelledError"
        if self.runtime.give_up(ticket, advice, {"event": "task_given_up"}):
            self._slots.discard(slot)
            self.runtime.recycle("an async handler hangs")
            self._buffer.finished(handler, len(ticket.deliveries), time.monotonic() - ticket.started_at)

    def left(self, slot: AsyncSlot) -> None:
        """Remove a slot that has ended, and start another one if messages wait."""
        self._slots.discard(slot)
        if self._buffer.startable:
            self._loop.call_soon(self._start_slot)

    # In the thread of the loop.

    def _start_slot(self) -> None:
        if (seconds := self._buffer.gathers_for()) is not None:
            if self._gathered is not None:
                self._gathered.cancel()
            self._gathered = self._loop.call_later(seconds, self._start_slot)
        if not self._buffer.startable or len(self._slots) >= self._buffer.concurrency or self._buffer.closed:
            return
        slot = AsyncSlot(self)
        self._slots.add(slot)
        slot.task = self._loop.create_task(slot.work(), context=self.context.copy())

    def _held(self) -> bool:
        """Return whether nothing may start; while the database is away, a start would only use up attempts.

        It also plans the next check.
        """
        if self._buffer.closed:
            return True
        if self.runtime.outage.calm.is_set() and not (self._held_until and time.monotonic() < self._held_until):
            return False
        if not self._looks_again:
            self._looks_again = True
            self._loop.call_later(numbers.RECHECK_SECONDS, self._look_again)
        return True

    def _look_again(self) -> None:
        self._looks_again = False
        self._start_slot()

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
        using, outage = self.runtime.options.using, self.runtime.outage
        recover(connections.all(initialized_only=True), (), using=using, role=ROLE, outage=outage, sleep=self._sleep)

    def _sleep(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._buffer.closed

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        # A task, because a worker with nothing to do may stop the loop before it is done. It reaches the thread of the
        # ORM before any handler does.
        self._tidy_task = self._loop.create_task(turn_off_query_logs())
        while not self._stopping:  # a handler may have stopped it
            self._loop.run_forever()
        self._loop.run_until_complete(self._wind_up())
        self._loop.close()

    async def _wind_up(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)
        # Without a timeout, which would cancel it: a handler may keep that thread, and its connection would stay.
        await sync_to_async(connections.close_all)()


@sync_to_async
def turn_off_query_logs() -> None:
    """Turn off ``connection.queries`` for all connections of the thread in which async handlers use the ORM."""
    for connection in connections.all():
        without_query_log(connection)


class AsyncSlot:
    """Run waiting messages in a task of the loop; the runner starts it.

    It is also the run of its present call, for the main thread: see :class:`django_pgqueue.worker.runtime.Run`.
    """

    __slots__ = (
        "_closed",
        "_handler",
        "_runner",
        "_ticket",
        "cancelled",
        "deadline",
        "interrupted",
        "task",
    )

    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner
        # Set by the code that starts the slot.
        self.task: asyncio.Task[None]
        self._closed = False
        self.deadline = float("inf")
        self.interrupted = False
        self.cancelled = False
        self._handler: Handler | None = None
        self._ticket: RunTicket | None = None

    async def work(self) -> None:
        """Run waiting messages until none may start, or until the task is cancelled."""
        runner = self._runner
        # The task may be cancelled outside of its handler, by a handler that cancels all tasks.
        with suppress(asyncio.CancelledError):
            until = time.monotonic() + numbers.TURN_SECONDS
            while (chosen := runner.next()) is not None:
                handler, deliveries = chosen
                started, timeout = time.monotonic(), runner.runtime.timeout_of(handler)
                # Before the ticket: give_up() in another thread must not see the new ticket with the old deadline.
                self.deadline = started + timeout
                self.interrupted = self.cancelled = False
                self._handler = handler
                ticket = self._ticket = RunTicket(runner.runtime.board, deliveries, started_at=started, timeout=timeout)
                try:
                    executions = await self._run(handler, deliveries, ticket)
                except BaseException as error:  # a future that ends with GeneratorExit closes the coroutine
                    executions = [failed_execution(delivery, error) for delivery in deliveries]
                    self._closed = True
                if not ticket.take():
                    break
                runner.finished(handler, executions)
                # A task that was cancelled, or will be at its next await, cannot run another message.
                if self.task.cancelling() or self._closed:
                    break
                if started > until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + numbers.TURN_SECONDS
        self.deadline = float("inf")
        runner.left(self)

    async def _run(self, handler: Handler | None, deliveries: list[Delivery], ticket: RunTicket) -> list[Execution]:
        if handler is None:
            return [missing_handler(delivery) for delivery in deliveries]
        executions = await self._call(handler, deliveries)
        if len(deliveries) > 1 and any(execution.raised for execution in executions):
            # Once the call was given up, other workers may have the messages.
            return [await self._alone(handler, delivery) for delivery in deliveries if ticket.is_free]
        return executions

    async def _alone(self, handler: Handler, delivery: Delivery) -> Execution:
        """Run one message of a batch that failed, with a new time limit."""
        while self.task.cancelling():
            self.task.uncancel()
        self.deadline = time.monotonic() + self._runner.runtime.timeout_of(handler)
        self.interrupted = False
        return (await self._call(handler, [delivery]))[0]

    async def _call(self, handler: Handler, deliveries: list[Delivery]) -> list[Execution]:
        """Call the handler once, for one message or a batch, in context variables of its own."""
        given = deliveries if handler.batch is not None else deliveries[0]
        called = execute_async(handler.function, given, self._explain, handler.backoff_function, handler.log)
        context, process = self._runner.context.copy(), os.getpid()
        executions: list[Execution]
        try:
            awaited = context.run(called.send, None)
        except StopIteration as stop:
            leave_if_forked(process)
            executions = stop.value
        else:
            self._runner.waits(self)
            executions = await IsolatedCoroutine(called, context, awaited, process)
        return executions

    def _explain(self, error: BaseException) -> BaseException:
        if isinstance(error, Outcome):
            return error
        if self.cancelled and isinstance(error, asyncio.CancelledError):
            return Cancelled()
        if not self.interrupted:
            return error
        timeout = timedelta(seconds=self._runner.runtime.timeout_of(self._handler))
        explained = HandlerTimeout(f"The handler ran longer than its timeout of {timeout}.")
        explained.__cause__ = error
        return explained

    def interrupt(self) -> None:
        """Cancel the task because the handler is past its deadline; from any thread."""
        self._runner.call(self._cancel, self._ticket, self.deadline)

    def _cancel(self, ticket: RunTicket, deadline: float) -> None:
        # A batch may have failed in the meantime, and its next message be running alone with a new deadline.
        if ticket is self._ticket and ticket.is_free and deadline == self.deadline and not self.interrupted:
            self.interrupted = True
            self.task.cancel()

    def cancel(self, delivery: Delivery) -> None:
        """Cancel the task if it runs this message alone; in the thread of the loop.

        The handler of a batch is not cancelled: it can look at ``delivery.cancelled``.
        """
        ticket = self._ticket
        if ticket is None or not ticket.is_free or self.cancelled:
            return
        if len(ticket.deliveries) == 1 and ticket.deliveries[0] is delivery:
            self.cancelled = True
            self.task.cancel()

    def give_up(self) -> None:
        """Settle the messages without the handler, if it is still past its deadline; from any thread."""
        if self._ticket is not None and self.deadline <= time.monotonic():
            self._runner.give_up(self, self._handler, self._ticket)


class IsolatedCoroutine:
    """Continue a coroutine that awaits ``awaited``, each step in the context.

    ``process``: id of this process. A child that the handler forks is ended before it gets into the loop.
    """

    __slots__ = ("_awaited", "_context", "_coroutine", "_process")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], context: Context, awaited: Any, process: int) -> None:
        self._coroutine = coroutine
        self._context = context
        self._awaited = awaited
        self._process = process

    def __await__(self) -> Generator[Any, Any, Any]:
        run, coroutine, awaited = self._context.run, self._coroutine, self._awaited
        while True:
            # A child that the handler forked would run the other handlers of the loop a second time.
            leave_if_forked(self._process)
            try:
                value = yield awaited
                step, argument = coroutine.send, value
            except BaseException as error:
                step, argument = coroutine.throw, error
            try:
                awaited = run(step, argument)
            except StopIteration as stop:
                leave_if_forked(self._process)
                return stop.value
