"""Run atomic handlers: the writes of a handler and the settlement of its messages commit together, or not at all.

An outcome that the handler returns (None, Complete, Defer, Reject, Cancelled) is settled in its transaction. An
exception, also a raised outcome, and a Retry in any case roll the writes back; then the completer writes the outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from django.db import DatabaseError, Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerError, LeaseLost, PartitionMissing, PgQueueError
from django_pgqueue.handlers import Handler
from django_pgqueue.lifecycle.settle import give_back, heartbeat
from django_pgqueue.lifecycle.upkeep import prune
from django_pgqueue.outcomes import Reject, Retry
from django_pgqueue.sql.call import call, translate
from django_pgqueue.worker import numbers
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.completer import passes, settle_batch, settlement_batches
from django_pgqueue.worker.database import (
    Outage,
    end_transactions,
    has_written,
    is_misfit,
    is_open,
    writes_lost,
)
from django_pgqueue.worker.executor import Execution, execute, failed_execution, missing_handler
from django_pgqueue.worker.failure import describe_error
from django_pgqueue.worker.ledger import Ledger
from django_pgqueue.worker.options import WorkerOptions

# PostgreSQL resets this setting at the end of the transaction, but also at a RESET ALL, which ends nothing; then now()
# is still the same. An xid would serve as well, but a handler that only reads must not have one, because it would keep
# the floors from rising for as long as it runs.
MARK = "SELECT set_config('pgqueue.run', 'open', true), now()"
LOOK = "SELECT current_setting('pgqueue.run', true), now()"
# "Current transaction is aborted": the error of each statement after the one that failed.
ABORTED = "25P02"
SWALLOWED = (
    "The handler caught this database error and went on, but its transaction is aborted and cannot be committed. "
    "Put what may fail into transaction.atomic(), and catch the error outside of that block."
)


class TransactionEnded(HandlerError):
    """An atomic handler ended its transaction by itself, so its writes may be committed without its outcome."""


class OwnTransaction:
    """Observe the transaction of an atomic handler. It is made in the transaction, before the handler begins.

    ``using``: database alias.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._error: BaseException | None = None
        [(_, self._began_at)] = call(using, MARK)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the database error that aborts the transaction, while the handler runs in this context."""
        with connections[self._using].execute_wrapper(self._execute):
            yield

    def check(self) -> None:
        """Check that the writes of the handler can still be committed together with its outcome.

        Raises TransactionEnded if the handler has ended the transaction. Raises the database error that aborted it, if
        the handler has caught that error; an error of the queue's functions is raised as its own exception, such as
        LeaseLost.
        """
        connection = connections[self._using]
        cause = self._error or getattr(connection, "rollback_exc", None)
        if cause is not None and (
            connection.needs_rollback or transaction_status(connection) == TransactionStatus.INERROR
        ):
            known = translate(cause) if isinstance(cause, DatabaseError) else None
            if known is not None and known.sqlstate == getattr(cause.__cause__, "sqlstate", ""):
                raise known from cause
            cause.add_note(SWALLOWED)
            raise cause
        self.check_ended()

    def check_ended(self) -> None:
        """Raise TransactionEnded if the handler has ended the transaction."""
        match transaction_status(connections[self._using]):
            case TransactionStatus.IDLE:
                ended = True
            case TransactionStatus.INTRANS if not connections[self._using].needs_rollback:
                [(mark, began_at)] = call(self._using, LOOK)
                ended = mark != "open" and began_at != self._began_at
            case _:
                ended = False
        if ended:
            raise TransactionEnded(
                "The handler ended the transaction that it shares with the settlement of its message, by a COMMIT or "
                "ROLLBACK of its own: what it wrote is committed in part, or lost.",
                hint="Remove it, or register the handler without atomic=True. See what was written, then redrive.",
            )

    def _execute(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        try:
            return execute(sql, params, many, context)
        except DatabaseError as error:
            if getattr(error.__cause__, "sqlstate", None) != ABORTED:
                self._error = error
            raise


def transaction_status(connection: BaseDatabaseWrapper) -> TransactionStatus:
    """Return the state of the session's transaction; UNKNOWN without a session."""
    session = connection.connection
    return TransactionStatus.UNKNOWN if session is None else session.info.transaction_status


ROLE = "atomic"

# Runs the handler once for all of the deliveries, and returns an execution for each.
Work = Callable[[list[Delivery]], list[Execution]]
# Calls a handler's function with a delivery, or a batch, within its time limit.
Limited = Callable[[Callable[[Any], Any], Any], Any]


def perform(handler: Handler | None, deliveries: list[Delivery], limited: Limited, atomic: Atomic) -> list[Execution]:
    """Run the handler of the deliveries, which are one message or a batch; the threads and ``drain`` do.

    ``limited``: calls the handler's function. ``atomic``: for handlers with ``atomic``. If a batch fails, its messages
    are run one by one. Returns the executions that are not settled yet.
    """
    if handler is None:
        return [missing_handler(delivery) for delivery in deliveries]
    function, backoff = partial(limited, handler.function), handler.backoff_function

    def work(deliveries: list[Delivery]) -> list[Execution]:
        given = deliveries if handler.batch is not None else deliveries[0]
        return execute(function, given, backoff, handler.log)

    if handler.atomic:
        return atomic.run(work, deliveries)
    executions = work(deliveries)
    if len(deliveries) > 1 and any(execution.raised for execution in executions):
        return [execution for delivery in deliveries for execution in work([delivery])]
    return executions


class SettlementRefused(Exception):
    """The database lacks a right, a table or a function that the settlement needs. ``batches``: what is to be settled.

    ``error``: the database's.
    """

    def __init__(self, batches: list[list[Execution]], error: DatabaseError) -> None:
        super().__init__(str(error))
        self.batches = batches
        self.error = error


class Atomic:
    """Run atomic handlers for the threads, and settle their messages.

    ``board``, ``ledger``: get the settlements, as from the completer. ``outage``: of the worker; without
    one, a settlement that the database cannot run fails the message.
    """

    def __init__(
        self,
        options: WorkerOptions,
        *,
        board: Board,
        ledger: Ledger,
        outage: Outage | None = None,
    ) -> None:
        self._using = options.using
        self._lease = options.lease
        self._board = board
        self._ledger = ledger
        self._outage = outage

    def run(self, work: Work, deliveries: list[Delivery], *, repairs: int = numbers.REPAIR_TRIES) -> list[Execution]:
        """Run the handler for the deliveries in one transaction; if that fails, for each of them in one of its own.

        ``work``: runs the handler. ``repairs``: how often to try again when the archive lacks a partition. Returns the
        executions that are not settled yet.
        """
        started = time.monotonic()
        try:
            executions, settled = self._transact(work, deliveries)
        except Exception as error:
            self._board.settling(deliveries, now=False)
            return self._failed(work, deliveries, error, started, repairs)
        if settled is not None:
            self._board.settle(deliveries)
            self._ledger.record(executions, settled)
            return []
        return executions if len(executions) == 1 else self._one_by_one(work, deliveries)

    def _failed(
        self, work: Work, deliveries: list[Delivery], error: Exception, started: float, repairs: int
    ) -> list[Execution]:
        """Return what is left to settle after a rollback because of ``error``; the arguments are those of :meth:`run`.

        ``started``: time.monotonic() before the handler.
        """
        seconds = time.monotonic() - started
        match error:
            case PartitionMissing() if repairs and self._repaired(repairs):
                return self.run(work, deliveries, repairs=repairs - 1)
            # Without such ids, the handler lost leases of its own, on other messages.
            case LeaseLost() if lost := [delivery for delivery in deliveries if delivery.id in error.ids]:
                others = [delivery for delivery in deliveries if delivery.id not in error.ids]
                return [*self._lost(lost), *self._one_by_one(work, others)]
            case TransactionEnded():
                # The handler must not run again, because its committed writes would be there twice.
                refused = Reject("transaction_ended", describe_error(error))
                return [Execution(delivery, refused, seconds=seconds) for delivery in deliveries]
            case SettlementRefused():
                if self._gave_back(deliveries, error.batches):
                    return []
                error = error.error
        if len(deliveries) == 1:
            return [failed_execution(deliveries[0], error, seconds=seconds)]
        return self._one_by_one(work, deliveries)

    def _transact(self, work: Work, deliveries: list[Delivery]) -> tuple[list[Execution], dict[int, str] | None]:
        """Run the handler in one transaction, and settle.

        Returns the executions, and the event of each message by its id, or None if the transaction was rolled back.
        """
        # Tests of a project run in a transaction; a worker does not.
        around = len(connections[self._using].atomic_blocks)
        in_test = connections[self._using].in_atomic_block
        with transaction.atomic(using=self._using):
            own = OwnTransaction(self._using)
            with own.watched():
                executions = work(deliveries)
            if any(execution.raised or isinstance(execution.outcome, Retry) for execution in executions):
                own.check_ended()
                transaction.set_rollback(True, using=self._using)
                return executions, None
            own.check()
            # A transaction on another database, which Django does not know of; Django's own end by themselves.
            for other in connections.all(initialized_only=True):
                if other.alias != self._using and not other.in_atomic_block and is_open(other) and has_written(other):
                    raise writes_lost(other.alias)
            self._board.settling(deliveries)
            settled: dict[int, str] = {}
            together = settlement_batches(executions)
            if len(together) > 1:
                # Locks all messages in the order of ids, because the groups would lock them in another order.
                ordered = sorted(deliveries, key=lambda delivery: delivery.id)
                heartbeat(ordered, lease=self._lease, using=self._using)
            try:
                for batch in together:
                    settled |= settle_batch(batch, skip_lost=False, using=self._using)
            except DatabaseError as error:
                if is_misfit(error):
                    raise SettlementRefused(together, error) from error
                raise
            # Mark the hooks as robust: one that raises must not look like a failed commit or keep others from running.
            connection = connections[self._using]
            # The stubs know pairs; since Django 4.2 they are triples.
            hooks: list[Any] = connection.run_on_commit
            connection.run_on_commit = [(sids, hook, True) for sids, hook, _ in hooks]  # type: ignore[misc]  # triples, see above
        if connection.in_atomic_block and (not in_test or len(connection.atomic_blocks) > around):
            end_transactions(connections.all(initialized_only=True), deliveries)
            raise HandlerError(
                "The handler opened a transaction or savepoint and did not end it: nothing could be committed.",
                hint="Use transaction.atomic() as a context manager or decorator.",
            )
        return executions, settled

    def _lost(self, deliveries: list[Delivery]) -> list[Execution]:
        """Report the deliveries whose leases are lost, after the rollback.

        Returns failures for the others: their leases are held, so the handler must have settled the messages itself.
        """
        held = heartbeat(deliveries, lease=self._lease, skip_lost=True, using=self._using)
        lost = [delivery for delivery in deliveries if delivery.id not in held]
        self._ledger.lost(self._board.settle(lost), effects="what its handler wrote is rolled back")
        return [
            failed_execution(
                delivery,
                HandlerError(
                    "The handler settled its own message, which the worker does when the handler has returned: what it "
                    "wrote is rolled back.",
                    hint="Return Complete(…), Defer(…) or Reject(…) instead of calling a function that settles.",
                ),
            )
            for delivery in deliveries
            if delivery.id in held
        ]

    def _gave_back(self, deliveries: list[Delivery], batches: list[list[Execution]]) -> bool:
        """Wait until the database can settle the messages, and give them back: what their handler wrote is rolled back.

        ``batches``: what is to be settled. Returns False without a wait if the database can settle them outside of the
        handler's transaction, because the handler has changed its role, for example.
        """

        def raise_misfit() -> None:
            """Try the settlement out; another error than a misfit means that the database can run it."""
            try:
                with suppress(PgQueueError), transaction.atomic(using=self._using):
                    for batch in batches:
                        settle_batch(batch, skip_lost=True, using=self._using)
                    transaction.set_rollback(True, using=self._using)
            except Error as error:
                if is_misfit(error):
                    raise

        def hand_back() -> None:
            raise_misfit()
            give_back(sorted(deliveries, key=lambda delivery: delivery.id), using=self._using)

        if self._outage is None:
            return False
        with suppress(Error):
            raise_misfit()
            return False

        def sleep_and_go_on(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        # Its handler has ended, so that no deadline applies to it any more.
        self._board.end(deliveries)
        try:
            self._outage.retry_until_success(ROLE, hand_back, sleep=sleep_and_go_on, on=passes)
        except (PgQueueError, DatabaseError):
            self._outage.ended(ROLE)
            return False
        self._board.settle(deliveries)
        return True

    def _repaired(self, repairs: int) -> bool:
        """Create the archive's partition, or wait for a pruner that is creating it. Returns False if that fails.

        ``repairs``: the tries that are left; the wait grows as they get fewer.
        """
        try:
            if not prune(using=self._using).partitions_made:
                time.sleep(0.1 * (numbers.REPAIR_TRIES - repairs))
        except Error:
            return False
        return True

    def _one_by_one(self, work: Work, deliveries: list[Delivery]) -> list[Execution]:
        return [execution for delivery in deliveries for execution in self.run(work, [delivery])]
