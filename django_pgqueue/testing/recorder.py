"""Stand in for the ledger of a worker in ``drain``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.executor import COMPLETED, Execution
from django_pgqueue.worker.ledger import Ledger


class Recorder(Ledger):
    """Count, log and send signals as a worker does, and record the outcome of each message."""

    def __init__(self, using: str) -> None:
        super().__init__(using, "drain")
        self.found: list[tuple[Execution, str]] = []

    def record(self, executions: list[Execution], settled: Mapping[int, str]) -> None:
        found = [execution for execution in executions if execution.delivery.id in settled]
        self.found += [(execution, settled[execution.delivery.id]) for execution in found]
        super().record(executions, settled)

    def lost(self, deliveries: Iterable[Delivery], *, effects: str) -> None:
        lost = list(deliveries)
        self.found += [(Execution(delivery, COMPLETED), "lost") for delivery in lost]
        super().lost(lost, effects=effects)
