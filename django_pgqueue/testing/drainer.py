"""drain: run the ready messages as a worker would, in the thread and on the connection of the test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import DatabaseError, connections, transaction

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerError, PgQueueError, UnknownHandler
from django_pgqueue.handlers import Handler
from django_pgqueue.lifecycle.dequeue import dequeue
from django_pgqueue.lifecycle.settle import give_back
from django_pgqueue.lifecycle.upkeep import make_partitions
from django_pgqueue.models import Channel, Message
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.outcomes import Defer, Outcome, Retry
from django_pgqueue.sql.call import alias
from django_pgqueue.testing.drained import Drained, Handled
from django_pgqueue.testing.in_transaction import guarded, hooks, run_hooks
from django_pgqueue.testing.recorder import Recorder
from django_pgqueue.worker.atomic import Atomic, perform
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.completer import settle_batch, settlement_batches
from django_pgqueue.worker.executor import Execution, HandlerMissing, failed_execution
from django_pgqueue.worker.looks import Contention
from django_pgqueue.worker.middleware import Middleware
from django_pgqueue.worker.options import WorkerOptions

MOST_DELIVERIES = 1000
"""The most deliveries without a ``limit``: a handler that enqueues or defers for ever must not hang the tests."""
AT_ONCE_MESSAGES = 100
CONTENDED_TRIES = 10


def drain(
    queue: str | None = None,
    *,
    limit: int | None = None,
    with_scheduled: bool = False,
    raise_errors: bool = True,
    using: str | None = None,
) -> Drained:
    """Run the handlers of all messages that are ready, and of those that they enqueue, until nothing is ready.

    ``queue``: only this one; default: all. ``limit``: the most deliveries. ``with_scheduled``: also run messages that
    are due later, in the order of their times, so that retries go on until the attempts are used up. ``raise_errors``:
    raise a handler's exception after its message is settled; with False, the result has it. ``using``: database alias;
    default: the queue's.

    Returns a :class:`Drained`. Raises RuntimeError after 1,000 deliveries without a ``limit``.
    """
    return Drain(alias(using), raise_errors=raise_errors).run(queue, limit, with_scheduled=with_scheduled)


adrain = sync_to_async(drain)
"""``drain`` for async tests."""


class Drain:
    """Run one drain."""

    def __init__(self, using: str, *, raise_errors: bool) -> None:
        self._using = using
        self._raise_errors = raise_errors
        self._raised: dict[int, BaseException] = {}
        self._for_later: set[int] = set()
        self._held: list[Delivery] = []
        self._recorder = Recorder(using)
        self._middleware = Middleware.configured()
        options = WorkerOptions(using=using, lease=settings.LEASE, name="drain")
        self._board = Board()
        self._atomic = Atomic(options, board=self._board, ledger=self._recorder)

    def run(self, queue: str | None, limit: int | None, *, with_scheduled: bool) -> Drained:
        """Run the messages of one queue, or of all for None.

        ``limit``: the most deliveries; None means MOST_DELIVERIES. ``with_scheduled``: run retries and scheduled
        messages, too, without waiting. Messages that were leased and not run are given back, also after an exception.
        """
        try:
            return self._run(queue, limit, with_scheduled=with_scheduled)
        finally:
            if self._held and not connections[self._using].needs_rollback:
                give_back(self._held, using=self._using)

    def _run(self, queue: str | None, limit: int | None, *, with_scheduled: bool) -> Drained:
        make_partitions(using=self._using)
        handled: list[Handled] = []
        most = MOST_DELIVERIES if limit is None else limit
        while len(handled) < most:
            deliveries = self._take(queue, min(AT_ONCE_MESSAGES, most - len(handled)))
            if not deliveries and not (with_scheduled and self._make_due(queue)):
                return Drained(tuple(handled))
            if not with_scheduled:
                deliveries = self._without_retries(deliveries)
            handled += self._handle(deliveries)
        if limit is None and (self._take(queue, 1) or (with_scheduled and self._make_due(queue))):
            raise RuntimeError(
                f"drain() has run {MOST_DELIVERIES} deliveries, and more are ready. Check for a handler that "
                "enqueues or defers for ever, or give the number that you expect: drain(limit=…)."
            )
        return Drained(tuple(handled))

    def _take(self, queue: str | None, limit: int) -> list[Delivery]:
        names = [queue] if queue else all_queues(self._using)
        contention = Contention(self._using)
        while True:
            for name in names:
                if deliveries := dequeue(name, limit, worker="drain", using=self._using):
                    return deliveries
            # A worker that runs beside the test may hold ready messages for a moment.
            if contention.tries == CONTENDED_TRIES or not (pause := contention.pause(names)):
                return []
            time.sleep(pause)

    def _without_retries(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Hold messages back that were deferred or retried in this drain, because a pause with jitter may be over at
        once."""
        self._held += [delivery for delivery in deliveries if delivery.id in self._for_later]
        return [delivery for delivery in deliveries if delivery.id not in self._for_later]

    def _make_due(self, queue: str | None) -> int:
        """Make the messages due that are next in time, of those that wait for nothing else. Returns how many."""
        scheduled = Message.objects.using(self._using).filter(status=Message.Status.SCHEDULED, waits_for=None)
        if queue:
            scheduled = scheduled.filter(channel__queue=queue)
        soonest = scheduled.order_by("dequeue_at").values_list("dequeue_at", flat=True).first()
        return scheduled.filter(dequeue_at=soonest).update(dequeue_at=ClockTimestamp()) if soonest else 0

    def _handle(self, deliveries: list[Delivery]) -> Iterator[Handled]:
        groups = self._groups(deliveries)
        for group in groups:
            handled = self._handle_group(group)
            yield from handled
            for item in handled:
                if item.error is not None and self._is_raised(item.error):
                    give_back([delivery for later in groups for delivery in later], using=self._using)
                    item.error.add_note(error_note(item))
                    raise item.error

    def _groups(self, deliveries: list[Delivery]) -> Iterator[list[Delivery]]:
        """Yield the deliveries of each call of a handler, grouped as the buffer of a worker does."""
        alike = self._middleware.alike
        group: list[Delivery] = []
        for delivery in deliveries:
            known = handlers.find(delivery.handler)
            fits = group and known and delivery.handler == group[0].handler and len(group) < (known.batch or 1)
            if group and not (fits and (alike is None or alike(group[0], delivery))):
                yield group
                group = []
            group.append(delivery)
        if group:
            yield group

    def _handle_group(self, deliveries: list[Delivery]) -> list[Handled]:
        if handlers.find(deliveries[0].handler) is None:
            self._raised[deliveries[0].id] = unknown_handler_error(deliveries[0].handler)
        self._recorder.found.clear()
        before = hooks()
        self._board.hold(deliveries, time.monotonic())
        done = perform(self._find(deliveries[0].handler), deliveries, self._call, self._atomic)
        executions = [without_grace(execution) for execution in done]
        self._settle(executions)
        self._board.settle(deliveries)
        run_hooks(before, robust=not self._raise_errors)
        found = self._recorder.found
        self._for_later |= {execution.delivery.id for execution, event in found if is_later(execution, event)}
        return [
            Handled(execution.delivery, event, execution.outcome, self._error(execution)) for execution, event in found
        ]

    def _find(self, name: str) -> Handler | None:
        """Return the handler as this thread can run it: a loop of its own would not see the transaction."""
        handler = self._middleware.find(name)
        if handler is None:
            return None
        function = async_to_sync(handler.function) if handler.asynchronous else handler.function
        return replace(handler, function=function, asynchronous=False)

    def _call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        deliveries = argument if isinstance(argument, list) else [argument]
        handler = handlers.find(deliveries[0].handler)
        ids = [delivery.id for delivery in deliveries]
        for number in ids:
            self._raised.pop(number, None)
        try:
            # An atomic handler has a transaction of its own around the call.
            return function(argument) if handler and handler.atomic else guarded(function, argument)
        except Outcome:
            raise
        except BaseException as error:
            self._raised |= dict.fromkeys(ids, error)
            raise

    def _settle(self, executions: list[Execution]) -> None:
        for batch in settlement_batches(executions):
            try:
                # In a test this is a savepoint: an error of the database must not end the transaction.
                with transaction.atomic(using=self._using):
                    settled = settle_batch(batch, skip_lost=True, using=self._using)
            except (PgQueueError, DatabaseError) as error:
                self._settle([self._refused(execution, error) for execution in batch])
            else:
                self._recorder.record(batch, settled)
                lost = [execution.delivery for execution in batch if execution.delivery.id not in settled]
                self._recorder.lost(lost, effects="its outcome is not written, because another process settled it")

    def _refused(self, execution: Execution, error: Exception) -> Execution:
        """Return an outcome that cannot be stored as a failure of its handler, as in a worker."""
        if isinstance(self._raised.get(execution.delivery.id), HandlerError):
            raise error
        kind = type(execution.outcome).__name__
        problem = HandlerError(f"The outcome {kind} cannot be written down: {error}")
        problem.__cause__ = error
        self._raised[execution.delivery.id] = problem
        return failed_execution(execution.delivery, problem, seconds=execution.seconds)

    def _error(self, execution: Execution) -> BaseException | None:
        error = self._raised.pop(execution.delivery.id, None)
        if error is None and execution.error and execution.is_handler_error:
            # The answer was no outcome: the executor reported it, and the handler raised nothing.
            return HandlerError(execution.error["message"])
        return error

    def _is_raised(self, error: BaseException) -> bool:
        """Return whether to raise the error. Errors that end the test itself, such as Ctrl-C and pytest.fail(), are
        always raised."""
        return self._raise_errors or not isinstance(error, Exception | SystemExit)


def without_grace(execution: Execution) -> Execution:
    """Treat a missing handler as a failure, because no deployment is in progress in a test."""
    if isinstance(execution.outcome, HandlerMissing):
        return replace(execution, outcome=Retry(), raised=True)
    return execution


def is_later(execution: Execution, event: str) -> bool:
    """Return whether the message is to run later: it was retried, or deferred to a time."""
    outcome = execution.outcome
    return event == "retried" or (isinstance(outcome, Defer) and bool(outcome.until or outcome.delay))


def all_queues(using: str) -> list[str]:
    """Return the names of all queues that have channels."""
    return sorted(set(Channel.objects.using(using).values_list("queue", flat=True)))


def unknown_handler_error(name: str) -> UnknownHandler:
    """Return the exception for a handler that is not registered, with the modules that could not be imported."""
    try:
        handlers.get(name)
    except UnknownHandler as error:
        for module, why in handlers.broken.items():
            error.add_note(f"{module} cannot be imported: {why}")
        return error
    raise AssertionError(name)


def error_note(item: Handled) -> str:
    """Return the note for an exception of a handler: which message, which attempt, and how to go on."""
    delivery = item.delivery
    what = f"{delivery.handler} #{delivery.id} (attempt {delivery.attempt} of {delivery.max_attempts})"
    return f"raised by {what}, which is {item.event.replace('_', '-')} now; drain(raise_errors=False) goes on"
