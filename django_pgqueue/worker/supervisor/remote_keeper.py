"""The remote keeper: what a child tells its supervisor, whose lease keeper heartbeats for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from uuid import UUID

from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.lease_keeper import key
from django_pgqueue.worker.supervisor.link import Link

Deliveries = Callable[[list[Delivery]], None]


class RemoteKeeper:
    """A keeper for the roles of a child. It decides what is held; the supervisor only keeps the leases alive."""

    def __init__(self, link: Link, lease: timedelta, *, on_lost: Deliveries, on_cancelled: Deliveries) -> None:
        self._link = link
        # Leases are not beaten for before a third of their time is over.
        self._young = lease.total_seconds() / 6
        self._on_lost = on_lost
        self._on_cancelled = on_cancelled
        self._held: dict[tuple[int, UUID | None], tuple[Delivery, float]] = {}
        self._settling: set[tuple[int, UUID | None]] = set()
        self._lock = threading.Lock()

    def hold(self, deliveries: Iterable[Delivery], since: float) -> None:
        """``since``: time.monotonic() before the leases were taken. The supervisor knows of them when this returns."""
        deliveries = list(deliveries)
        with self._lock:
            self._held.update((key(delivery), (delivery, since)) for delivery in deliveries)
        self._link.send("hold", names(deliveries), since)

    def settling(self, deliveries: Iterable[Delivery], now: bool = True) -> None:
        """Their settlement is under way: a heartbeat would wait for it."""
        deliveries = list(deliveries)
        young = time.monotonic() - self._young
        with self._lock:
            change = self._settling.update if now else self._settling.difference_update
            change(key(delivery) for delivery in deliveries)
            known = [(delivery, self._held.get(key(delivery))) for delivery in deliveries]
        # A frame for each message would be much ado about nothing: most are settled before their first heartbeat.
        old = [delivery for delivery, held in known if held is not None and held[1] < young]
        if old:
            self._link.send("settling", names(old), now)

    def release(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Forget them; returns those that were held until now."""
        with self._lock:
            released = [delivery for delivery in deliveries if self._held.pop(key(delivery), None) is not None]
            self._settling.difference_update(key(delivery) for delivery in released)
        if released:
            self._link.send("release", names(released))
        return released

    def __len__(self) -> int:
        return len(self._held)

    def lost(self, leases: list[tuple[int, str]]) -> None:
        """The supervisor's heartbeat did not find them. Those that are being settled were found settled, perhaps."""
        with self._lock:
            lost = [delivery for delivery in self._known(leases) if key(delivery) not in self._settling]
            for delivery in lost:
                del self._held[key(delivery)]
        if lost:
            self._on_lost(lost)

    def cancelled(self, leases: list[tuple[int, str]]) -> None:
        with self._lock:
            cancelled = self._known(leases)
        if cancelled:
            self._on_cancelled(cancelled)

    def _known(self, leases: list[tuple[int, str]]) -> list[Delivery]:
        keys = [(message, UUID(token)) for message, token in leases]
        return [self._held[lease][0] for lease in keys if lease in self._held]

    def start(self) -> None:
        """The supervisor beats."""

    def stop(self) -> None:
        """The supervisor goes on beating until this process has ended."""


def names(deliveries: Iterable[Delivery]) -> list[tuple[int, str]]:
    """Leases as the link carries them."""
    return [(delivery.id, delivery.token.hex if delivery.token else "") for delivery in deliveries]
