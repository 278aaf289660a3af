"""Run handlers in threads, one message or batch at a time in each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery, label
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.call.executor import failed_execution, failed_executions, stuck_execution
from django_pgqueue.worker.call.thread_run import ThreadRun
from django_pgqueue.worker.database import OwnConnections, cancel_query, end_transactions, recover, without_query_log
from django_pgqueue.worker.role import Role
from django_pgqueue.worker.run.buffer import Buffer
from django_pgqueue.worker.run.perform import Performer
from django_pgqueue.worker.run.run_ticket import RunTicket
from django_pgqueue.worker.run.runtime import Runtime

ROLE = "slot"

logger = logging.getLogger("django_pgqueue.worker")


class Slots:
    """Run a thread for each unit of ``concurrency``, and replace a thread whose handler does not end.

    ``buffer``: has the messages. ``performer``: runs them. ``runtime``: services that they share with the event loop.
    While the queue's database is away nothing is started, because that would only use up attempts.
    """

    def __init__(self, buffer: Buffer, *, performer: Performer, runtime: Runtime) -> None:
        self._buffer = buffer
        self._performer = performer
        self._runtime = runtime
        self._slots = [self._slot(number) for number in range(1, buffer.concurrency + 1)]

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

    def _slot(self, number: int) -> Slot:
        return Slot(number, self._buffer, performer=self._performer, runtime=self._runtime, replace=self._replace)

    def _replace(self, slot: Slot, deliveries: list[Delivery], seconds: float) -> None:
        """Settle the deliveries of a handler that does not end, replace its thread, and ask for a new process.

        ``seconds``: how long it has run.
        """
        messages = ", ".join(map(label, deliveries))
        logger.error(
            "the handler %s did not end after its timeout (%s): the messages are retried, and this process is "
            "replaced. Give its blocking calls a timeout", deliveries[0].handler, messages,
            extra={"event": "thread_given_up", "message_id": deliveries[0].id, "queue": deliveries[0].queue},
        )  # fmt: skip
        self._runtime.put([stuck_execution(delivery, seconds / len(deliveries)) for delivery in deliveries])
        new = self._slot(slot.number)
        self._slots[slot.number - 1] = new
        reason = "a thread hangs"
        if not self._buffer.closed:
            try:
                new.thread.start()
            except RuntimeError as error:
                # The system gives no more threads. The other slots go on; without any, the supervisor sees a stall.
                reason += f", and no other takes its place: {error}"
        self._runtime.recycle(reason)


class Slot:
    """Run messages of the buffer in one thread, until the buffer is closed.

    ``number``: counted from 1. ``replace``: called with the slot, its messages, and how many seconds they have run,
    in the thread of the deadlines, when its handler does not end. ``current``: the call that runs now, or None.
    """

    def __init__(
        self,
        number: int,
        buffer: Buffer,
        *,
        performer: Performer,
        runtime: Runtime,
        replace: Callable[[Slot, list[Delivery], float], None],
    ) -> None:
        self.number = number
        self.thread = Role(f"slot-{number}", self._run, crashed=runtime.crashed)
        self.current: ThreadRun | None = None
        self._buffer = buffer
        self._performer = performer
        self._runtime = runtime
        self._replace = replace
        self._connections = OwnConnections()

    def _run(self) -> None:
        self._connections.opened()
        for connection in self._connections.found:
            without_query_log(connection)
        while (deliveries := self._next()) is not None:
            timeout = self._runtime.timeout_of(handlers.find(deliveries[0].handler))
            ticket = RunTicket(self._runtime.board, deliveries, started_at=time.monotonic(), timeout=timeout)
            try:
                executions = self._performer.perform(deliveries, partial(self._limited, ticket, timeout))
            except BaseException as error:  # a slot that dies silently would be missing until the next restart
                messages = ", ".join(map(label, deliveries))
                logger.exception(
                    "a thread failed outside of the handler; retrying %s", messages, extra={"event": "slot_failed"}
                )
                executions = [failed_execution(delivery, error) for delivery in deliveries]
            if not ticket.take():
                return
            used = self._connections.opened()
            if used and (lost := end_transactions(used, deliveries)) is not None:
                executions = failed_executions(executions, lost)
            self._runtime.put(executions)
            if used:
                runtime = self._runtime
                recover(used, deliveries, using=runtime.using, role=ROLE, outage=runtime.outage, sleep=self._sleep)
            self._buffer.finished(deliveries, time.monotonic() - ticket.started_at)

    def _limited(self, ticket: RunTicket, timeout: float, handler: Handler) -> Callable[[Any], Any]:
        give_up = partial(self._give_up, ticket)

        def call(argument: Any) -> Any:
            run = self.current = ThreadRun(timeout, give_up=give_up, wake=self._cancel_queries)
            self._runtime.expect(run.deadline)
            try:
                return run.call(handler.function, argument)
            finally:
                self.current = None

        return call

    def _cancel_queries(self) -> None:
        for connection in self._connections.found:
            cancel_query(connection)

    def _give_up(self, ticket: RunTicket) -> None:
        if ticket.take():
            seconds = time.monotonic() - ticket.started_at
            self._replace(self, ticket.deliveries, seconds)
            self._buffer.finished(ticket.deliveries, seconds)

    def _next(self) -> list[Delivery] | None:
        outage = self._runtime.outage
        while not outage.over and not outage.wait_until_over(0.5) and not self._buffer.closed:
            pass
        return self._buffer.take()

    def _sleep(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._buffer.closed
