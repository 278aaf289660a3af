"""Atomic handlers: what a handler writes and the completion of its message become true together, or not at all.

What a handler returns is settled in its transaction, together with its writes: None, Complete, Defer, DeadLetter.
What it raises, and a Retry in any case, rolls its writes back; then the outcome is written by itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db import transaction

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import LeaseLost, PartitionMissing
from django_pgqueue.handlers import Handler
from django_pgqueue.lifecycle.prune import prune
from django_pgqueue.outcomes import Retry
from django_pgqueue.worker.executor import Execution, execute, failed
from django_pgqueue.worker.lease_keeper import LeaseKeeper
from django_pgqueue.worker.ledger import Ledger
from django_pgqueue.worker.settle import settle

logger = logging.getLogger("django_pgqueue.worker")


class Atomic:
    """``put``: takes the outcomes that are not settled in the handler's transaction."""

    def __init__(self, using: str, *, keeper: LeaseKeeper, ledger: Ledger, put: Callable[[Execution], None]) -> None:
        self._using = using
        self._keeper = keeper
        self._ledger = ledger
        self._put = put

    def run(self, handler: Handler, delivery: Delivery, *, repairs: int = 1) -> None:
        started = time.monotonic()
        committed: list[bool] = []
        try:
            with transaction.atomic(using=self._using):
                # The first hook of the transaction: it tells a failed commit from a failed hook of the handler.
                transaction.on_commit(lambda: committed.append(True), using=self._using)
                execution = execute(handler.function, delivery)
                keep = not execution.raised and not isinstance(execution.outcome, Retry)
                if keep:
                    self._keeper.settling([delivery])
                    settled = settle([execution], skip_lost=False, using=self._using)
                else:
                    transaction.set_rollback(True, using=self._using)
        except LeaseLost:
            self._ledger.lost(self._keeper.release([delivery]), effects="what the handler wrote is rolled back")
            return
        except PartitionMissing as error:
            self._keeper.settling([delivery], now=False)
            if repairs:
                prune(using=self._using)
                self.run(handler, delivery, repairs=repairs - 1)
            else:
                self._put(failed(delivery, error, seconds=time.monotonic() - started))
            return
        except Exception as error:
            if not committed:
                self._keeper.settling([delivery], now=False)
                self._put(failed(delivery, error, seconds=time.monotonic() - started))
                return
            logger.exception(
                "an on_commit hook of %s #%d failed; the message is settled", delivery.handler, delivery.id
            )
        if not keep:
            self._put(execution)
            return
        self._keeper.release([delivery])
        for event in settled.values():
            self._ledger.settled(event, [execution])
