"""Extend the leases of all messages that this process holds, started or not, until they are settled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from django_pgqueue.delivery import Delivery, Leased, LeaseToken
from django_pgqueue.lifecycle.settle import heartbeat
from django_pgqueue.worker.database import Outage, dedicate_connection
from django_pgqueue.worker.role import Crashed, Role

ROLE = "lease keeper"


# A delivery, or what the supervisor keeps of one.
L = TypeVar("L", bound=Leased)


Key = tuple[int, LeaseToken | None]


def key(delivery: Leased) -> Key:
    """Return the key of a lease: id and token, because a worker may get a lost message again while its handler runs."""
    return delivery.id, delivery.token


class Keeper(Protocol):
    """Describe a keeper of leases, which extends them by heartbeats of its own or through the supervisor."""

    def hold(self, deliveries: Iterable[Delivery], since: float) -> None:
        """Extend the leases from now on. ``since``: time.monotonic() before they were taken."""

    def settling(self, deliveries: Iterable[Delivery], now: bool = True) -> None:
        """Do not report the leases as lost while they are settled (``now``), or do so again."""

    def release(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Forget the leases. Returns those that were held until now."""

    def holds(self, delivery: Delivery) -> bool:
        """Return whether this lease is held."""

    def __len__(self) -> int:
        """Return the number of leases that are held."""

    def start(self) -> None:
        """Start to extend leases."""

    def stop(self) -> None:
        """End the keeper; leases that are still held expire."""


@dataclass(slots=True)
class Lease(Generic[L]):
    """Hold a lease that a keeper extends.

    ``beat_at``, ``held_at``: when it was last extended, and taken (time.monotonic()). ``settling``: it is being
    settled, so it is not lost if a heartbeat does not find it. ``cancelled``: a requested cancellation was reported
    already.
    """

    delivery: L
    beat_at: float
    held_at: float
    settling: bool = False
    cancelled: bool = False


class LeaseKeeper(Generic[L]):
    """Extend leases by heartbeats, each after a third of its time; for a supervisor, or a worker without one.

    ``lease``: the duration of a lease. ``on_lost``: called with the leases that were swept or settled by another
    process. ``on_cancelled``: called once with each message whose cancellation was requested. ``crashed``: called with
    the error if the thread ends by one.
    """

    def __init__(
        self,
        using: str,
        lease: timedelta,
        *,
        outage: Outage,
        on_lost: Callable[[list[L]], None],
        on_cancelled: Callable[[list[L]], None] = lambda deliveries: None,
        crashed: Crashed,
    ) -> None:
        self._using = using
        self._lease = lease
        self._every = lease.total_seconds() / 3
        self._outage = outage
        self._on_lost = on_lost
        self._on_cancelled = on_cancelled
        self._held: dict[Key, Lease[L]] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = Role("lease-keeper", self._run, crashed=crashed)

    def hold(self, deliveries: Iterable[L], since: float) -> None:
        """Extend the leases from now on. ``since``: time.monotonic() before they were taken."""
        with self._lock:
            for delivery in deliveries:
                self._held[key(delivery)] = Lease(delivery, since, since)

    def settling(self, deliveries: Iterable[L], now: bool = True) -> None:
        """Do not report the leases as lost while they are settled (``now``), or do so again.

        A heartbeat after the settlement does not find them. One before it extends them: the settlement may wait.
        """
        with self._lock:
            for delivery in deliveries:
                lease = self._held.get(key(delivery))
                if lease is not None:
                    lease.settling = now

    def release(self, deliveries: Iterable[L]) -> list[L]:
        """Forget the leases. Returns those that were held until now."""
        with self._lock:
            return [delivery for delivery in deliveries if self._held.pop(key(delivery), None) is not None]

    def leases(self) -> list[Lease[L]]:
        """Return a copy of the list of held leases."""
        with self._lock:
            return list(self._held.values())

    def held(self) -> list[L]:
        """Return the deliveries whose leases are held."""
        with self._lock:
            return [lease.delivery for lease in self._held.values()]

    def holds(self, delivery: L) -> bool:
        """Return whether this lease is held."""
        return key(delivery) in self._held

    def __len__(self) -> int:
        return len(self._held)

    def run_once(self) -> int:
        """Extend all leases that are due. Returns how many were extended. Raises the database's error."""
        now = time.monotonic()
        with self._lock:
            due = [lease for lease in self._held.values() if lease.beat_at + self._every <= now]
        if not due:
            return 0
        held = self._extend([lease.delivery for lease in due])
        cancelled = [lease for lease in due if held.get(key(lease.delivery)) and not lease.cancelled]
        with self._lock:
            for lease in due:
                lease.beat_at = now
            # A lease that was settled in the meantime is not lost.
            lost = [
                lease.delivery
                for lease in due
                if key(lease.delivery) not in held
                and not lease.settling
                and self._held.get(key(lease.delivery)) is lease
            ]
        if lost:
            self._on_lost(self.release(lost))
        if cancelled:
            for lease in cancelled:
                lease.cancelled = True
            self._on_cancelled([lease.delivery for lease in cancelled])
        return len(held)

    def _extend(self, deliveries: list[L]) -> dict[Key, bool]:
        """Extend the leases. Returns those that are held, each with whether a cancellation was requested.

        One call has one lease of a message. There may be two: an old one, which is lost, and that of another process.
        """
        held = {}
        while deliveries:
            asked = {delivery.id: delivery for delivery in deliveries}
            answers = heartbeat(list(asked.values()), lease=self._lease, skip_lost=True, using=self._using)
            held.update({key(asked[message]): cancelled for message, cancelled in answers.items()})
            deliveries = [delivery for delivery in deliveries if asked[delivery.id] is not delivery]
        return held

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it for up to 5 s. Leases that are still held expire."""
        self._stopped.set()
        self._thread.join(5)

    def _run(self) -> None:
        dedicate_connection(self._using)
        while not self._stopped.wait(self._every / 4):
            self._outage.retry_until_success(ROLE, self.run_once, sleep=self._stopped.wait)
