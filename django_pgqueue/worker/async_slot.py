"""Run async handlers one after the other in a slot, which is a task of the event loop.

A handler that never awaits costs neither a task nor a turn of the loop: its slot goes on with the next message at once.
When a handler awaits something, another slot is started, up to ``async_concurrency``.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context
from datetime import timedelta
from typing import Any, Protocol

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerTimeout
from django_pgqueue.handlers import Handler
from django_pgqueue.outcomes import Cancelled, Outcome
from django_pgqueue.worker.backlog import Taken
from django_pgqueue.worker.executor import (
    Execution,
    execute_async,
    execute_batch_async,
    failed_execution,
    missing_handler,
)
from django_pgqueue.worker.interruption import RunTicket, leave_if_forked
from django_pgqueue.worker.runtime import Runtime

# A slot goes on for this time before it gives the loop to slots whose wait is over, and to new messages.
TURN_SECONDS = 0.005


class Runner(Protocol):
    """Describe what a slot uses of :class:`django_pgqueue.worker.event_loop.AsyncRunner`."""

    runtime: Runtime
    context: Context

    def next(self) -> Taken | None:
        """Return a handler and its messages to run now; None: nothing may start."""

    def waits(self, slot: AsyncSlot) -> None:
        """Record that the handler of the slot awaits something."""

    def finished(self, handler: Handler | None, executions: list[Execution]) -> None:
        """Take the executions of a call that has ended."""

    def given_up(self, slot: AsyncSlot, handler: Handler | None, deliveries: list[Delivery], seconds: float) -> None:
        """Settle the messages of a handler that has run for ``seconds`` and does not end."""

    def left(self, slot: AsyncSlot) -> None:
        """Remove a slot that has ended."""

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call the function in the thread of the loop."""


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

    def __init__(self, runner: Runner) -> None:
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
            until = time.monotonic() + TURN_SECONDS
            while (chosen := runner.next()) is not None:
                ticket = self._begin(*chosen)
                try:
                    executions = await self._run(*chosen)
                except BaseException as error:  # a future that ends with GeneratorExit closes the coroutine
                    executions = [failed_execution(delivery, error) for delivery in chosen[1]]
                    self._closed = True
                if not ticket.take():
                    break
                runner.finished(chosen[0], executions)
                # A task that was cancelled, or will be at its next await, cannot run another message.
                if self.task.cancelling() or self._closed:
                    break
                if ticket.started_at > until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + TURN_SECONDS
        self.deadline = float("inf")
        runner.left(self)

    async def _run(self, handler: Handler | None, deliveries: list[Delivery]) -> list[Execution]:
        if handler is None:
            return [missing_handler(delivery) for delivery in deliveries]
        if handler.batch is None:
            return [
                await self._isolated(
                    execute_async(handler.function, deliveries[0], self._explain, handler.backoff_function)
                )
            ]
        together = execute_batch_async(handler.function, deliveries, self._explain, handler.backoff_function)
        executions: list[Execution] = await self._isolated(together)
        if len(deliveries) > 1 and any(execution.raised for execution in executions):
            return [await self._alone(handler, delivery) for delivery in deliveries]
        return executions

    async def _alone(self, handler: Handler, delivery: Delivery) -> Execution:
        """Run one message of a batch that failed, with a new time limit."""
        while self.task.cancelling():
            self.task.uncancel()
        self.deadline = time.monotonic() + self._runner.runtime.timeout_of(handler)
        self.interrupted = False
        together = execute_batch_async(handler.function, [delivery], self._explain, handler.backoff_function)
        executions: list[Execution] = await self._isolated(together)
        return executions[0]

    async def _isolated(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run the coroutine in context variables of its own, and return its value."""
        context = self._runner.context.copy()
        process = os.getpid()
        try:
            awaited = context.run(coroutine.send, None)
        except StopIteration as stop:
            leave_if_forked(process)
            return stop.value
        self._runner.waits(self)
        return await IsolatedCoroutine(coroutine, context, awaited, process)

    def _begin(self, handler: Handler | None, deliveries: list[Delivery]) -> RunTicket:
        runtime = self._runner.runtime
        started = time.monotonic()
        timeout = runtime.timeout_of(handler)
        # Set before the ticket: give_up() in another thread must not see the new ticket with the old deadline.
        self.deadline = started + timeout
        self.interrupted = self.cancelled = False
        self._handler = handler
        ticket = self._ticket = RunTicket(runtime.board, deliveries, started_at=started, timeout=timeout)
        return ticket

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
        ticket, handler = self._ticket, self._handler
        if ticket is None or self.deadline > time.monotonic():
            return
        if ticket.take():
            self._runner.given_up(self, handler, ticket.deliveries, time.monotonic() - ticket.started_at)


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
