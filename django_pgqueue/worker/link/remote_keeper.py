"""Report the leases of a child to its supervisor, whose lease keeper extends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.link.pipe import LeaseList, Link

Deliveries = Callable[[list[Delivery]], None]


class RemoteKeeper:
    """A keeper for the roles of a child. It decides what is held; the supervisor only keeps the leases alive.

    It stands in the way of each message, so it looks up ids, and compares tokens only where objects differ.
    """

    def __init__(self, link: Link, lease: timedelta, *, on_lost: Deliveries, on_cancelled: Deliveries) -> None:
        self._link = link
        # Leases are not beaten for before a third of their time is over.
        self._young = lease.total_seconds() / 6
        self._on_lost = on_lost
        self._on_cancelled = on_cancelled
        self._held: dict[int, tuple[Delivery, float]] = {}
        self._settling: set[int] = set()
        self._lock = threading.Lock()

    def hold(self, deliveries: Iterable[Delivery], since: float) -> None:
        """Hold leases taken after ``since`` (time.monotonic()). Returns when they are sent to the supervisor."""
        deliveries = list(deliveries)
        with self._lock:
            # A worker that has a message again had lost it.
            lost = [self._held[delivery.id][0] for delivery in deliveries if delivery.id in self._held]
            self._held.update({delivery.id: (delivery, since) for delivery in deliveries})
        self._link.send("hold", LeaseList.of(deliveries), since)
        if lost:
            self._on_lost(lost)

    def settling(self, deliveries: Iterable[Delivery], now: bool = True) -> None:
        """Skip heartbeats while the leases are settled: a heartbeat would wait for that."""
        young = time.monotonic() - self._young
        with self._lock:
            held = [delivery for delivery in deliveries if self._holds(delivery)]
            change = self._settling.update if now else self._settling.difference_update
            change([delivery.id for delivery in held])
            # A frame for each message would be much ado: most are settled before their first heartbeat.
            old = [delivery for delivery in held if self._held[delivery.id][1] < young]
        if old:
            self._link.send("settling", LeaseList.of(old), now)

    def release(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Forget the leases. Returns those that were held until now."""
        with self._lock:
            released = []
            for delivery in deliveries:
                if self._holds(delivery):
                    del self._held[delivery.id]
                    self._settling.discard(delivery.id)
                    released.append(delivery)
        if released:
            self._link.send("release", LeaseList.of(released))
        return released

    def holds(self, delivery: Delivery) -> bool:
        """Return whether this lease is held."""
        return self._holds(delivery)

    def __len__(self) -> int:
        return len(self._held)

    def lost(self, leases: LeaseList) -> None:
        """The supervisor's heartbeat did not find them. Those that are being settled were found settled, perhaps."""
        with self._lock:
            lost = [delivery for delivery in self._known(leases) if delivery.id not in self._settling]
            for delivery in lost:
                del self._held[delivery.id]
        if lost:
            self._on_lost(lost)

    def cancelled(self, leases: LeaseList) -> None:
        with self._lock:
            cancelled = self._known(leases)
        if cancelled:
            self._on_cancelled(cancelled)

    def _holds(self, delivery: Delivery) -> bool:
        held = self._held.get(delivery.id)
        return held is not None and (held[0] is delivery or held[0].token == delivery.token)

    def _known(self, leases: LeaseList) -> list[Delivery]:
        held = [(self._held.get(lease.id), lease.token) for lease in leases.held("")]
        return [entry[0] for entry, token in held if entry is not None and int(entry[0].token or 0) == token]

    def start(self) -> None:
        """The supervisor beats."""

    def stop(self) -> None:
        """The supervisor goes on beating until this process has ended."""
