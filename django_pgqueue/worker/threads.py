"""Run handlers in threads, one message or batch at a time in each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from django_pgqueue.delivery import Delivery, label
from django_pgqueue.exceptions import HandlerError
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.atomic import Atomic, perform
from django_pgqueue.worker.buffer import Buffer, Taken
from django_pgqueue.worker.database import OwnConnections, cancel_query, end_transactions, recover, without_query_log
from django_pgqueue.worker.executor import failed_execution, failed_executions
from django_pgqueue.worker.interruption import RunTicket, ThreadRun
from django_pgqueue.worker.runtime import Role, Runtime

ROLE = "slot"

logger = logging.getLogger("django_pgqueue.worker")


class Threads:
    """Run a thread for each unit of ``concurrency``, and replace a thread whose handler does not end.

    ``buffer``: has the messages. While the queue's database is away nothing is started, because that would only use up
    attempts.
    """

    def __init__(self, buffer: Buffer, runtime: Runtime) -> None:
        self.buffer = buffer
        self.runtime = runtime
        self.atomic = Atomic(runtime.options, board=runtime.board, ledger=runtime.ledger, outage=runtime.outage)
        self._slots = [Slot(number, self) for number in range(1, buffer.concurrency + 1)]

    def start(self) -> None:
        """Start the threads."""
        for slot in self._slots:
            slot.thread.start()

    def join(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for the threads to end, after the buffer is closed."""
        deadline = time.monotonic() + timeout
        for slot in self._slots:
            # A replacement that was made while the worker stopped is never started.
            if slot.thread.is_alive():
                slot.thread.join(max(0.0, deadline - time.monotonic()))

    def runs(self) -> Iterator[ThreadRun]:
        """Yield the calls of handlers that run now."""
        for slot in list(self._slots):
            run = slot.current
            if run is not None:
                yield run

    def give_up(self, slot: Slot, handler: Handler | None, ticket: RunTicket) -> None:
        """Settle the messages of a handler that does not end, replace its thread, and ask for a new process."""
        advice = "Give its blocking calls a timeout"
        if not self.runtime.give_up(ticket, advice, {"event": "thread_given_up"}):
            return
        new = self._slots[slot.number - 1] = Slot(slot.number, self)
        reason = "a thread hangs"
        if not self.buffer.closed:
            try:
                new.thread.start()
            except RuntimeError as error:
                # The system gives no more threads. The other slots go on; without any, the supervisor sees a stall.
                reason += f", and no other takes its place: {error}"
        self.runtime.recycle(reason)
        self.buffer.finished(handler, len(ticket.deliveries), time.monotonic() - ticket.started_at)


class Slot:
    """Run messages of the buffer in one thread, until the buffer is closed.

    ``number``: counted from 1. ``current``: the call that runs now, or None.
    """

    def __init__(self, number: int, threads: Threads) -> None:
        self.number = number
        self.current: ThreadRun | None = None
        self._threads = threads
        self._buffer = threads.buffer
        self._runtime = threads.runtime
        self._connections = OwnConnections()
        self.thread = Role(f"slot-{number}", self._run, crashed=threads.runtime.crashed)

    def _run(self) -> None:
        self._connections.opened()
        for connection in self._connections.found:
            without_query_log(connection)
        while (taken := self._next()) is not None:
            if not self._run_once(*taken):
                return

    def _run_once(self, handler: Handler | None, deliveries: list[Delivery]) -> bool:
        """Run a handler for its messages, and put their outcomes. Returns False if this thread was given up."""
        runtime = self._runtime
        timeout = runtime.timeout_of(handler)
        ticket = RunTicket(runtime.board, deliveries, started_at=time.monotonic(), timeout=timeout)
        try:
            call = partial(self._call, handler, ticket, timeout)
            executions = perform(handler, deliveries, call, self._threads.atomic)
        except BaseException as error:  # a slot that dies silently would be missing until the next restart
            messages = ", ".join(map(label, deliveries))
            logger.exception(
                "a thread failed outside of the handler; retrying %s", messages, extra={"event": "slot_failed"}
            )
            executions = [failed_execution(delivery, error) for delivery in deliveries]
        if not ticket.take():
            return False
        used = self._connections.opened()
        if used and (lost := end_transactions(used, deliveries)) is not None:
            executions = failed_executions(executions, lost)
        runtime.put(executions)
        if used:
            recover(used, deliveries, using=runtime.options.using, role=ROLE, outage=runtime.outage, sleep=self._sleep)
        self._buffer.finished(handler, len(deliveries), time.monotonic() - ticket.started_at)
        return True

    def _call(
        self, handler: Handler | None, ticket: RunTicket, timeout: float, function: Callable[[Any], Any], argument: Any
    ) -> Any:
        """Call the function of the handler within its time limit.

        Raises HandlerError once the call was given up: a batch that failed does not go on one by one, because other
        workers may have its messages.
        """
        if not ticket.is_free:
            raise HandlerError("The handler was given up, and its messages are settled.")
        give_up = partial(self._threads.give_up, self, handler, ticket)
        run = self.current = ThreadRun(timeout, give_up=give_up, wake=self._cancel_queries)
        self._runtime.expect(run.deadline)
        try:
            return run.call(function, argument)
        finally:
            self.current = None

    def _cancel_queries(self) -> None:
        for connection in self._connections.found:
            cancel_query(connection)

    def _next(self) -> Taken | None:
        outage = self._runtime.outage
        while not outage.calm.is_set() and not self._buffer.closed:
            outage.calm.wait(0.5)
        return self._buffer.wait()

    def _sleep(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._buffer.closed
