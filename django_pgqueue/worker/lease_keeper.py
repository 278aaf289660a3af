"""Extend the leases that the boards of worker processes show, started or not, until they are settled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from django_pgqueue.lifecycle.settle import heartbeat
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.database import dedicate_connection
from django_pgqueue.worker.runtime import Role, Shared

ROLE = "lease keeper"


class HeldLease(NamedTuple):
    """Hold a lease as the lease keeper knows it. ``worker``: the name of the process that has the message."""

    id: int
    token: UUID
    worker: str

    @property
    def pair(self) -> tuple[int, int]:
        """Return the id and the number of the token, as a board takes them."""
        return self.id, self.token.int


class Holder(Protocol):
    """Describe a process that holds leases: its name, and the board that shows them."""

    name: str
    board: Board


@dataclass(slots=True)
class Lease:
    """Hold when a lease was last extended (``beat_at``) and taken (``held_at``), by time.monotonic().

    ``cancelled``: a requested cancellation was reported already.
    """

    beat_at: float
    held_at: float
    cancelled: bool = False


Leases = Callable[[list[HeldLease]], None]


class LeaseKeeper(Role):
    """Extend leases by heartbeats, each after a third of its time: those of a supervisor's children, or a worker's own.

    It reads them from the boards before each round. A process shows a lease before it starts the handler, so neither a
    process that is stopped nor a handler that holds Python's lock loses it. The leases of a process that has ended are
    extended until they are released here.

    ``holders``: returns the processes of the present moment. ``on_lost``: called with the leases that were swept or
    settled by another process. ``on_cancelled``: called once with each lease whose message is to be cancelled.
    """

    def __init__(
        self, shared: Shared, *, holders: Callable[[], Iterable[Holder]], on_lost: Leases, on_cancelled: Leases
    ) -> None:
        super().__init__("lease-keeper", self._run, crashed=shared.crashed)
        self._using = shared.using
        self._outage = shared.outage
        self._lease = shared.options.lease
        self._every = self._lease.total_seconds() / 3
        self._holders = holders
        self._on_lost = on_lost
        self._on_cancelled = on_cancelled
        self._held: dict[HeldLease, Lease] = {}
        # The leases that ended here and are still on the board of a process.
        self._ended_here: set[HeldLease] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def read(self, holder: Holder, *, last: bool = False) -> None:
        """Update the leases of a process from its board; not if it has ended, except for the ``last`` time."""
        with self._lock:
            if holder.board.closed and not last:
                return
            shown = {HeldLease(each.id, UUID(int=each.token), holder.name): each for each in holder.board.leases()}
            for lease in [each for each in self._held if each.worker == holder.name and each not in shown]:
                del self._held[lease]
            self._ended_here -= {each for each in self._ended_here if each.worker == holder.name and each not in shown}
            for lease, each in shown.items():
                if lease not in self._ended_here and lease not in self._held:
                    self._held[lease] = Lease(each.held_at, each.held_at)

    def held(self, worker: str | None = None) -> list[HeldLease]:
        """Return the leases that are held, of one process or of all, as of the last reading of the boards."""
        with self._lock:
            return [lease for lease in self._held if worker in (None, lease.worker)]

    def since(self) -> dict[HeldLease, float]:
        """Read the boards, and return when each lease was taken (time.monotonic())."""
        self._read_all()
        with self._lock:
            return {lease: times.held_at for lease, times in self._held.items()}

    def release(self, leases: Iterable[HeldLease]) -> None:
        """Forget the leases, although a board may show them a while longer."""
        with self._lock:
            for lease in leases:
                self._ended_here.add(lease)
                self._held.pop(lease, None)

    def run_once(self) -> int:
        """Read the boards, and extend all leases that are due. Returns how many. Raises the database's error."""
        self._read_all()
        now = time.monotonic()
        with self._lock:
            due = {lease: times for lease, times in self._held.items() if times.beat_at + self._every <= now}
        if not due:
            return 0
        answers = self._extend(list(due))
        for times in due.values():
            times.beat_at = now
        with self._lock:
            lost = [lease for lease in due if lease not in answers and lease in self._held]
        if lost:
            self.release(lost)
            self._on_lost(lost)
        if cancelled := [lease for lease, times in due.items() if answers.get(lease) and not times.cancelled]:
            for lease in cancelled:
                due[lease].cancelled = True
            self._on_cancelled(cancelled)
        return len(answers)

    def stop(self) -> None:
        """End the thread, and wait for it for up to 5 s. Leases that are still held expire."""
        self._stopped.set()
        self.join(5)

    def _read_all(self) -> None:
        holders = list(self._holders())
        for holder in holders:
            self.read(holder)
        names = {holder.name for holder in holders}
        with self._lock:
            self._ended_here = {lease for lease in self._ended_here if lease.worker in names}

    def _extend(self, leases: list[HeldLease]) -> dict[HeldLease, bool]:
        """Extend the leases. Returns those that are held, each with whether a cancellation was requested.

        One call has one lease of a message. There may be two: an old one, which is lost, and that of another process.
        """
        held = {}
        while leases:
            asked = {lease.id: lease for lease in leases}
            answers = heartbeat(list(asked.values()), lease=self._lease, skip_lost=True, using=self._using)
            held.update({asked[message]: cancelled for message, cancelled in answers.items()})
            leases = [lease for lease in leases if asked[lease.id] is not lease]
        return held

    def _run(self) -> None:
        dedicate_connection(self._using)
        while not self._stopped.wait(self._every / 4):
            self._outage.retry_until_success(ROLE, self.run_once, sleep=self._stopped.wait)
