"""The completer: collects outcomes for a few milliseconds and writes them down in batches. None is lost silently."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from django.db import DatabaseError, connections

from django_pgqueue.delivery import label
from django_pgqueue.exceptions import HandlerError, PartitionMissing, PgQueueError
from django_pgqueue.lifecycle.prune import prune
from django_pgqueue.worker.call.executor import Execution, failed_execution
from django_pgqueue.worker.database import TRANSIENT, Outage, dedicate_connection
from django_pgqueue.worker.hold.board import Board
from django_pgqueue.worker.hold.lease_keeper import Keeper
from django_pgqueue.worker.role import Crashed, Role
from django_pgqueue.worker.settle.ledger import Ledger
from django_pgqueue.worker.settle.verbs import settle_batch, settlement_batches

logger = logging.getLogger("django_pgqueue.worker")

ROLE = "completer"
# Errors that pass: another pruner may be about to make the partition.
PASSING = (*TRANSIENT, PartitionMissing)
COLLECT = 0.003
LARGEST = 500
# So often may a statement fail on a server that answers, before its messages are settled one by one.
FAILURES_BEFORE_SPLIT = 3


class Completer:
    """``on_settled``: called after each batch; a slot of a limited channel may have come free."""

    def __init__(
        self,
        using: str,
        *,
        keeper: Keeper,
        board: Board,
        ledger: Ledger,
        outage: Outage,
        on_settled: Callable[[], None],
        crashed: Crashed,
    ) -> None:
        self._using = using
        self._keeper = keeper
        self._board = board
        self._ledger = ledger
        self._outage = outage
        self._on_settled = on_settled
        self._outcomes: SimpleQueue[list[Execution] | None] = SimpleQueue()
        self._gave_up = threading.Event()
        self._thread = Role("completer", self._run, crashed=crashed)

    def put(self, executions: list[Execution]) -> None:
        if executions:
            self._outcomes.put(executions)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Write the collected outcomes; give up after ``timeout`` seconds. Returns whether all are written."""
        self._outcomes.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._gave_up.set()
            self._thread.join(5)
        return not self._gave_up.is_set()

    def _run(self) -> None:
        dedicate_connection(self._using)
        running = True
        while running:
            collected, running = self._collect()
            self.run_once(collected)

    def _collect(self) -> tuple[list[Execution], bool]:
        """Return the executions that came in, and whether more will come."""
        found: list[Execution] = []
        part = self._outcomes.get()
        until = time.monotonic() + COLLECT
        while part is not None:
            found += part
            if len(found) >= LARGEST:
                return found, True
            try:
                part = self._outcomes.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                return found, True
        return found, False

    def run_once(self, executions: list[Execution]) -> None:
        """Settle executions of any outcome. A batch that cannot be written is logged, and its leases expire."""
        for batch in settlement_batches(executions):
            try:
                self._settle(batch)
            except Exception as error:
                self._board.give_up(execution.delivery for execution in batch)
                self._keeper.release(execution.delivery for execution in batch)
                messages = ", ".join(label(execution.delivery) for execution in batch)
                logger.exception(
                    "gave up writing the outcomes of %s: %s. Their leases will expire.",
                    messages,
                    error,
                    extra={"event": "outcome_lost"},
                )
        if executions:
            self._on_settled()

    def _settle(self, batch: list[Execution]) -> None:
        failures = 0

        def write() -> dict[int, str] | None:
            nonlocal failures
            self._keeper.settling(deliveries)
            try:
                try:
                    return settle_batch(batch, skip_lost=True, using=self._using)
                except PartitionMissing:
                    prune(using=self._using)
                    return settle_batch(batch, skip_lost=True, using=self._using)
            except PASSING:
                # While we try again, the leases must live. If it has been committed all the same, that is known then.
                self._keeper.settling(deliveries, now=False)
                failures += connections[self._using].is_usable()
                if failures >= FAILURES_BEFORE_SPLIT and len(batch) > 1:
                    return None
                raise

        deliveries = [execution.delivery for execution in batch]
        try:
            settled = self._outage.patiently(ROLE, write, sleep=self._gave_up.wait, on=PASSING)
        except (PgQueueError, DatabaseError) as error:
            self._refused(batch, error)
            return
        if self._gave_up.is_set() and settled is None:
            raise TimeoutError("the database did not come back in time")
        if settled is None:
            self._one_by_one(batch)
            return
        self._written(batch, settled)

    def _written(self, batch: list[Execution], settled: dict[int, str]) -> None:
        self._board.settle(execution.delivery for execution in batch)
        missing = [execution.delivery for execution in batch if execution.delivery.id not in settled]
        self._keeper.release(execution.delivery for execution in batch if execution.delivery.id in settled)
        self._ledger.record(batch, settled)
        # Those that the lease keeper has missed already are reported already.
        self._ledger.lost(self._keeper.release(missing), effects="its outcome is not written, another worker has it")

    def _one_by_one(self, batch: list[Execution]) -> None:
        for execution in batch:
            self.run_once([execution])

    def _refused(self, batch: list[Execution], error: Exception) -> None:
        """Record an outcome that the database refuses (not JSON, a wrong type) as the handler's failure."""
        if len(batch) > 1:
            self._one_by_one(batch)
            return
        execution = batch[0]
        if isinstance(execution.error, dict) and execution.error.get("type", "").endswith("HandlerError"):
            raise error
        problem = HandlerError(f"The outcome {type(execution.outcome).__name__} cannot be written down: {error}")
        problem.__cause__ = error
        self.run_once([failed_execution(execution.delivery, problem, seconds=execution.seconds)])
