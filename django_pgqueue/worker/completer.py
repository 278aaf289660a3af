"""Collect outcomes for a few milliseconds, and write them in batches, each by the verb of its outcome.

An outcome that cannot be written is logged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, assert_never

from django.db import DatabaseError, connections, transaction

from django_pgqueue import handlers
from django_pgqueue.delivery import label
from django_pgqueue.exceptions import HandlerError, PartitionMissing, PgQueueError
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.logs import keep_logs
from django_pgqueue.lifecycle.settle import complete, dead_letter, defer, defer_unknown, retry
from django_pgqueue.lifecycle.upkeep import prune
from django_pgqueue.outcomes import KEEP, Archive, Cancelled, Complete, Defer, Pause, Reject, Retry
from django_pgqueue.worker import numbers
from django_pgqueue.worker.database import TRANSIENT, dedicate_connection, is_misfit
from django_pgqueue.worker.executor import COMPLETED, Execution, HandlerMissing, failed_execution
from django_pgqueue.worker.runtime import Role, Runtime

logger = logging.getLogger("django_pgqueue.worker")

ROLE = "completer"


def passes(error: Exception) -> bool:
    """Return whether a settlement that failed by ``error`` is tried again, because the message is not the cause.

    PartitionMissing is such an error, because another pruner may be creating the partition.
    """
    return isinstance(error, (*TRANSIENT, PartitionMissing)) or is_misfit(error)


class Completer(Role):
    """Run the thread that settles messages; the handlers' threads and the event loop put executions into it.

    ``on_settled``: called with the executions after each collection, because a limited channel may have a free place.
    """

    def __init__(self, runtime: Runtime, *, on_settled: Callable[[list[Execution]], None]) -> None:
        super().__init__("completer", self._run, crashed=runtime.crashed)
        self._using = runtime.options.using
        self._board = runtime.board
        self._ledger = runtime.ledger
        self._outage = runtime.outage
        self._on_settled = on_settled
        self._outcomes: SimpleQueue[list[Execution] | None] = SimpleQueue()
        self._gave_up = threading.Event()
        self._busy_until = 0.0

    def put(self, executions: list[Execution]) -> None:
        """Queue the executions for settlement; from any thread."""
        if executions:
            self._outcomes.put(executions)

    def stop(self, timeout: float) -> bool:
        """Write the queued outcomes, and end the thread. Gives up after ``timeout`` seconds. Returns whether all are
        written.
        """
        self._outcomes.put(None)
        self.join(timeout)
        if self.is_alive():
            self._gave_up.set()
            self.join(5)
        return not self._gave_up.is_set()

    def _run(self) -> None:
        dedicate_connection(self._using)
        running = True
        while running:
            collected, running = self._collect()
            self.run_once(collected)
            self._busy_until = time.monotonic() + numbers.BUSY_SECONDS

    def _collect(self) -> tuple[list[Execution], bool]:
        """Wait for executions and collect more for COLLECT_SECONDS. Returns them, and whether more will come."""
        found: list[Execution] = []
        part = self._outcomes.get()
        # Outcomes that come seldom do not wait for others: the place of their message under a limit is free sooner.
        if part is not None and self._outcomes.qsize() < numbers.MOST_OUTCOMES and time.monotonic() < self._busy_until:
            # A wait for the next one would wake this thread for each message.
            time.sleep(numbers.COLLECT_SECONDS)
        while part is not None:
            found += part
            if len(found) >= numbers.MOST_OUTCOMES:
                return found, True
            try:
                part = self._outcomes.get_nowait()
            except Empty:
                return found, True
        return found, False

    def run_once(self, executions: list[Execution]) -> None:
        """Settle executions of any outcome. Does not raise: a batch that cannot be written is logged, and its leases
        expire.
        """
        for batch in settlement_batches(executions):
            try:
                self._settle(batch)
            except Exception as error:
                self._board.give_up(execution.delivery for execution in batch)
                messages = ", ".join(label(execution.delivery) for execution in batch)
                logger.exception(
                    "gave up writing the outcomes of %s: %s. Their leases will expire.", messages, error,
                    extra={"event": "outcome_lost"},
                )  # fmt: skip
        if executions:
            self._on_settled(executions)

    def _settle(self, batch: list[Execution]) -> None:
        deliveries = [execution.delivery for execution in batch]
        failures = 0

        def write() -> dict[int, str] | None:
            nonlocal failures
            self._board.settling(deliveries)
            try:
                try:
                    return settle_batch(batch, skip_lost=True, using=self._using)
                except PartitionMissing:
                    prune(using=self._using)
                    return settle_batch(batch, skip_lost=True, using=self._using)
            except Exception as error:
                if not passes(error):
                    raise
                # During the retries the leases must be extended. If the settlement has committed after all, the next
                # attempt finds the leases lost.
                self._board.settling(deliveries, now=False)
                failures += not is_misfit(error) and connections[self._using].is_usable()
                if failures >= numbers.FAILURES_BEFORE_SPLIT and len(batch) > 1:
                    return None
                raise

        try:
            settled = self._outage.retry_until_success(ROLE, write, sleep=self._gave_up.wait, on=passes)
        except (PgQueueError, DatabaseError) as error:
            self._refused(batch, error)
            return
        if self._gave_up.is_set() and settled is None:
            raise TimeoutError("the database did not come back in time")
        if settled is None:
            self._one_by_one(batch)
            return
        held = self._board.settle(deliveries)
        self._ledger.record(batch, settled)
        if len(settled) < len(batch):
            # Leases that the lease keeper has lost before were reported then.
            lost = [delivery for delivery in held if delivery.id not in settled]
            self._ledger.lost(lost, effects="its outcome is not written, another worker has it")

    def _one_by_one(self, batch: list[Execution]) -> None:
        for execution in batch:
            self.run_once([execution])

    def _refused(self, batch: list[Execution], error: Exception) -> None:
        """Settle an outcome that the database refuses (not JSON, a wrong type) as a failure of the handler.

        The messages of a larger batch are first settled one by one. Raises ``error`` if a failure is refused, too.
        """
        if len(batch) > 1:
            self._one_by_one(batch)
            return
        execution = batch[0]
        if execution.is_handler_error:
            raise error
        problem = HandlerError(f"The outcome {type(execution.outcome).__name__} cannot be written down: {error}")
        problem.__cause__ = error
        failed = failed_execution(execution.delivery, problem, seconds=execution.seconds)
        self.run_once([replace(failed, log=execution.log)])


def settlement_batches(executions: Iterable[Execution]) -> list[list[Execution]]:
    """Group the executions that one call of a verb can settle.

    A group is in the order of ids, which is the lock order, and has each message once.
    """
    found: dict[tuple[Any, ...], list[Execution]] = {}
    seen: dict[int, int] = {}
    completed: dict[str, tuple[str, ...]] = {}
    for execution in executions:
        delivery = execution.delivery
        if execution.outcome is COMPLETED:
            # Nearly all outcomes are this one: its key depends on the handler alone.
            key = completed.get(delivery.handler) or completed.setdefault(delivery.handler, batch_key(execution))
        else:
            key = batch_key(execution)
        # A message may be here twice: a handler that lost its lease may end together with the next delivery.
        again = seen.get(delivery.id, 0)
        seen[delivery.id] = again + 1
        found.setdefault((key, again), []).append(execution)
    return [sorted(batch, key=lambda execution: execution.delivery.id) for batch in found.values()]


def batch_key(execution: Execution) -> tuple[str, ...]:
    """Return the key of a group: the verb, and the arguments that all messages of one call share."""
    match execution.outcome:
        case Complete():
            return ("complete", str(archive_of(execution)))
        case Retry():
            return ("retry", execution.reason)
        case HandlerMissing():
            return ("defer_unknown",)
        case Pause():
            return ("pause", str(execution.delivery.id))
        case Defer(until, delay, state, count_attempt):
            return ("defer", repr(until), repr(delay), stored_text(state), str(count_attempt))
        case Reject(reason, details):
            return ("dead_letter", reason, stored_text(details))
        case Cancelled():
            return ("cancelled", str(archive_of(execution)))
        case other:
            assert_never(other)


def stored_text(value: Any) -> str:
    """Return a text that is the same for values that are stored alike: KEEP, or the JSON.

    A ``repr`` may leave out what is stored, such as a field of a dataclass with ``repr=False``, or may raise. A value
    that cannot be stored gets a text of its own; the settlement of its message reports it.
    """
    if value is KEEP:
        return "KEEP"
    try:
        return to_json(value, "value") or ""
    except Exception:
        return f"not JSON: {id(value)}"


def archive_of(execution: Execution) -> Archive | None:
    """Return the archive setting of the outcome, or else of the handler; None: that of its channel or queue applies."""
    given: Archive | None = getattr(execution.outcome, "archive", None)
    known = handlers.find(execution.delivery.handler)
    return given or (known.archive if known else None)


def settle_batch(batch: list[Execution], *, skip_lost: bool, using: str) -> dict[int, str]:
    """Write the outcomes of one group, as :func:`settle_group`, and the logs of its messages in the transaction."""
    if all(execution.log is None for execution in batch):
        return settle_group(batch, skip_lost=skip_lost, using=using)
    with transaction.atomic(using=using):
        settled = settle_group(batch, skip_lost=skip_lost, using=using)
        written = [execution for execution in batch if execution.delivery.id in settled and execution.log is not None]
        keep_logs([each.delivery for each in written], [each.log or "" for each in written], using=using)
    return settled


def settle_group(batch: list[Execution], *, skip_lost: bool, using: str) -> dict[int, str]:
    """Write the outcomes of one group of :func:`settlement_batches`. Returns the event of each message by its id.

    The events are the keys of ``ledger.SIGNALS``. ``skip_lost``: leave messages out whose lease is lost; without it,
    LeaseLost is raised for them. ``using``: database alias. Raises PartitionMissing, and InvalidMessage for an outcome
    that cannot be stored.
    """
    deliveries = [execution.delivery for execution in batch]
    outcomes: list[Any] = [execution.outcome for execution in batch]  # of one kind
    errors = [execution.error or {} for execution in batch]
    how: dict[str, Any] = {"skip_lost": skip_lost, "using": using}
    ran = how | {"ran_seconds": [execution.seconds or None for execution in batch]}

    def unless_all(absent: Any, values: list[Any]) -> list[Any] | None:
        return values if any(value is not absent for value in values) else None

    match batch[0].outcome:
        case Complete():
            results = unless_all(None, [outcome.result for outcome in outcomes])
            return dict.fromkeys(
                complete(deliveries, results=results, archive=archive_of(batch[0]), **ran), "completed"
            )
        case Cancelled():
            reasons = unless_all(None, [{"reason": each.reason} if each.reason else None for each in outcomes])
            ended = complete(deliveries, results=reasons, cancelled=True, archive=archive_of(batch[0]), **ran)
            return dict.fromkeys(ended, "cancelled")
        case Retry():
            delays = unless_all(None, [outcome.after for outcome in outcomes])
            states = unless_all(KEEP, [outcome.state for outcome in outcomes])
            reason = batch[0].reason
            return dict(retry(deliveries, errors=errors, delays=delays, states=states, reason=reason, **ran))
        case HandlerMissing():
            return dict(defer_unknown(deliveries, errors=errors, **how))
        case Pause() as pause:
            return pause.settle(deliveries[0], **how)
        case Defer(until, delay, state, count_attempt):
            return dict(defer(deliveries, until=until, delay=delay, state=state, count_attempt=count_attempt, **how))
        case Reject(reason, details):
            return dict.fromkeys(dead_letter(deliveries, reason=reason, details=details, **ran), "dead_lettered")
        case other:
            assert_never(other)
