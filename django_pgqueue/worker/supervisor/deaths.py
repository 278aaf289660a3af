"""Deaths: what becomes of the messages of a child that is no more. Nobody has to wait for their leases to expire."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from django_pgqueue.lifecycle.give_back import give_back
from django_pgqueue.lifecycle.retry import retry
from django_pgqueue.worker.board import Running
from django_pgqueue.worker.database import Outage, dedicate
from django_pgqueue.worker.lease_keeper import LeaseKeeper
from django_pgqueue.worker.role import Crashed, Role
from django_pgqueue.worker.supervisor.link import Held

logger = logging.getLogger("django_pgqueue.worker")

ROLE = "undertaker"


@dataclass(frozen=True, slots=True)
class Inheritance:
    """Messages that somebody else shall have.

    ``failed`` are retried, under their policy, with ``error``; ``reason``: of the dead letter when their attempts are
    used up. ``innocent`` are given back, and their attempt does not count.
    """

    failed: list[Held]
    innocent: list[Held]
    error: dict[str, Any]
    reason: str


def after_death(held: list[Held], running: list[Running], *, worker: str, end: str) -> Inheritance:
    """It died by itself: each message that it ran may be the cause."""
    suspects = {entry.id for entry in running}
    error = {"type": "WorkerDied", "message": f"The process of the worker {worker} ended while this ran: {end}."}
    return divide(held, suspects, error, "poison")


def after_execution(held: list[Held], guilty: frozenset[int], *, worker: str, why: str) -> Inheritance:
    """The supervisor killed it, because of messages that ran past their deadline or for no fault of any."""
    error = {"type": "HandlerTimeout", "message": f"The process of the worker {worker} was killed: {why}."}
    return divide(held, set(guilty), error, "timed_out")


def divide(held: list[Held], failed: set[int], error: dict[str, Any], reason: str) -> Inheritance:
    # In the order of ids, which is the lock order.
    ordered = sorted(held)
    return Inheritance(
        failed=[lease for lease in ordered if lease.id in failed],
        innocent=[lease for lease in ordered if lease.id not in failed],
        error=error,
        reason=reason,
    )


class Undertaker:
    """Writes it down, however long the database is away. Until then the leases are kept alive."""

    def __init__(
        self, using: str, *, keeper: LeaseKeeper, outage: Outage, on_settled: Callable[[], None], crashed: Crashed
    ) -> None:
        self._using = using
        self._keeper = keeper
        self._outage = outage
        self._on_settled = on_settled
        self._inheritances: SimpleQueue[Inheritance | None] = SimpleQueue()
        self._gave_up = threading.Event()
        self._thread = Role(ROLE, self._run, crashed=crashed)

    def put(self, inheritance: Inheritance) -> None:
        if inheritance.failed or inheritance.innocent:
            self._inheritances.put(inheritance)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Write down what is there; returns whether it succeeded in time."""
        self._inheritances.put(None)
        self._thread.join(timeout)
        self._gave_up.set()
        return not self._thread.is_alive()

    def run_once(self, inheritance: Inheritance) -> dict[int, str]:
        """Returns what became of each message that was still ours."""
        failed, innocent = inheritance.failed, inheritance.innocent
        self._keeper.settling([*failed, *innocent])
        errors = [inheritance.error] * len(failed)
        settled = dict(
            retry(failed, errors=errors, reason=inheritance.reason, skip_lost=True, using=self._using) if failed else ()
        )
        if innocent:
            settled |= dict.fromkeys(give_back(innocent, using=self._using), "given_back")
        self._keeper.release([*failed, *innocent])
        return settled

    def _run(self) -> None:
        dedicate(self._using)
        while (inheritance := self._inheritances.get()) is not None:
            settled = self._outage.patiently(
                ROLE, lambda inheritance=inheritance: self.run_once(inheritance), sleep=self._gave_up.wait
            )
            self._report(inheritance, settled or {})
            self._on_settled()

    def _report(self, inheritance: Inheritance, settled: dict[int, str]) -> None:
        for lease in inheritance.failed:
            event = settled.get(lease.id)
            if event is not None:
                level = logging.ERROR if event == "dead_lettered" else logging.WARNING
                logger.log(
                    level, "%s: #%d, %s: %s", event, lease.id, inheritance.error["type"], inheritance.error["message"],
                    extra={"event": event, "message_id": lease.id, "worker": lease.worker},
                )  # fmt: skip
        given_back = sum(event == "given_back" for event in settled.values())
        if given_back:
            logger.info("gave %d message(s) back that were not started", given_back, extra={"event": "given_back"})
