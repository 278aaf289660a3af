"""Stand in for the ledger and the lease keeper of a worker in ``drain``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.call.executor import COMPLETED, Execution
from django_pgqueue.worker.settle.ledger import Ledger


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


class Leases:
    """Replace a lease keeper: a test holds its leases while the handler runs, and never loses them."""

    def hold(self, deliveries: Iterable[Delivery], since: float) -> None:
        """Do nothing: no heartbeat is needed."""

    def settling(self, deliveries: Iterable[Delivery], now: bool = True) -> None:
        """Do nothing: no heartbeat can come between."""

    def release(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Return all deliveries: each lease is still held."""
        return list(deliveries)

    def holds(self, delivery: Delivery) -> bool:
        """Return True: no lease is ever lost."""
        return True

    def __len__(self) -> int:
        return 0

    def start(self) -> None:
        """Do nothing: there is no thread."""

    def stop(self) -> None:
        """Do nothing: there is no thread."""
