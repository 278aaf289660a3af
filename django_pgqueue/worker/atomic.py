"""Atomic handlers: what a handler writes and the settlement of its messages become true together, or not at all.

What a handler returns is settled in its transaction, together with its writes: nothing, Complete, Defer, DeadLetter.
What it raises, and a Retry in any case, rolls its writes back; then the outcome is written by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import Error, connections, transaction

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import LeaseLost, PartitionMissing
from django_pgqueue.handlers import Handler
from django_pgqueue.lifecycle.heartbeat import heartbeat
from django_pgqueue.lifecycle.prune import prune
from django_pgqueue.outcomes import Retry
from django_pgqueue.worker.executor import Execution, failed, run
from django_pgqueue.worker.lease_keeper import Keeper
from django_pgqueue.worker.ledger import Ledger
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.settle import batches, settle

REPAIRS = 5


class Atomic:
    """``put``: takes the outcomes that are not settled in the handler's transaction."""

    def __init__(
        self, options: WorkerOptions, *, keeper: Keeper, ledger: Ledger, put: Callable[[Execution], None]
    ) -> None:
        self._using = options.using
        self._lease = options.lease
        self._keeper = keeper
        self._ledger = ledger
        self._put = put

    def run(self, handler: Handler, deliveries: list[Delivery], *, repairs: int = REPAIRS) -> None:
        """Run the handler for the deliveries in one transaction; when that fails, for each of them alone."""
        started = time.monotonic()
        try:
            executions, settled = self._transact(handler, deliveries)
        except PartitionMissing as error:
            self._keeper.settling(deliveries, now=False)
            if repairs and self._repaired(repairs):
                self.run(handler, deliveries, repairs=repairs - 1)
            else:
                self._failed(handler, deliveries, error, started)
            return
        except LeaseLost as error:
            self._keeper.settling(deliveries, now=False)
            lost = [delivery for delivery in deliveries if delivery.id in error.ids]
            self._ledger.lost(self._keeper.release(lost), effects="what its handler wrote is rolled back")
            self._one_by_one(handler, [delivery for delivery in deliveries if delivery.id not in error.ids])
            return
        except Exception as error:
            self._keeper.settling(deliveries, now=False)
            self._failed(handler, deliveries, error, started)
            return
        if settled is not None:
            self._keeper.release(deliveries)
            self._ledger.record(executions, settled)
        elif len(executions) == 1:
            self._put(executions[0])
        else:
            self._one_by_one(handler, deliveries)

    def _transact(self, handler: Handler, deliveries: list[Delivery]) -> tuple[list[Execution], dict[int, str] | None]:
        """One transaction. Returns the executions, and what became of each message: None if all is rolled back."""
        with transaction.atomic(using=self._using):
            executions = run(handler.function, deliveries, batch=handler.batch is not None)
            if any(execution.raised or isinstance(execution.outcome, Retry) for execution in executions):
                transaction.set_rollback(True, using=self._using)
                return executions, None
            self._keeper.settling(deliveries)
            settled: dict[int, str] = {}
            together = batches(executions)
            if len(together) > 1:
                # Locks all messages in the order of ids, before the parts would do it in an order of their own.
                ordered = sorted(deliveries, key=lambda delivery: delivery.id)
                heartbeat(ordered, lease=self._lease, using=self._using)
            for batch in together:
                settled |= settle(batch, skip_lost=False, using=self._using)
            # Robust: a hook that raises must not look like a failed commit, nor keep the other hooks from running.
            connection = connections[self._using]
            connection.run_on_commit = [(sids, hook, True) for sids, hook, _ in connection.run_on_commit]
        return executions, settled

    def _repaired(self, repairs: int) -> bool:
        """Make the archive's partition, or let the pruner who is at it come to an end."""
        try:
            if not prune(using=self._using).partitions_made:
                time.sleep(0.1 * (REPAIRS - repairs))
        except Error:
            return False
        return True

    def _failed(self, handler: Handler, deliveries: list[Delivery], error: Exception, started: float) -> None:
        if len(deliveries) == 1:
            self._put(failed(deliveries[0], error, seconds=time.monotonic() - started))
        else:
            self._one_by_one(handler, deliveries)

    def _one_by_one(self, handler: Handler, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self.run(handler, [delivery])
