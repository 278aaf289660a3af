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
    """Keep the leases of a child: it knows which leases are held, and the supervisor sends the heartbeats.

    The producer, the completer and atomic handlers of a child use it in place of a LeaseKeeper. ``link``: to the
    supervisor. ``lease``: the duration of a lease. ``on_lost``: called with deliveries whose leases are lost.
    ``on_cancelled``: called with deliveries whose cancellation was requested. Each message passes it several times, so
    it looks up ids, and compares tokens only if the objects differ.
    """

    def __init__(self, link: Link, lease: timedelta, *, on_lost: Deliveries, on_cancelled: Deliveries) -> None:
        self._link = link
        # The supervisor extends a lease after a third of its time; a younger one needs no frame.
        self._young = lease.total_seconds() / 6
        self._on_lost = on_lost
        self._on_cancelled = on_cancelled
        self._held: dict[int, tuple[Delivery, float]] = {}
        self._settling: set[int] = set()
        self._lock = threading.Lock()

    def hold(self, deliveries: Iterable[Delivery], since: float) -> None:
        """Hold the leases, and send them to the supervisor. ``since``: time.monotonic() before they were taken."""
        deliveries = list(deliveries)
        with self._lock:
            # If a message is here already, its first lease was lost.
            lost = [self._held[delivery.id][0] for delivery in deliveries if delivery.id in self._held]
            self._held.update({delivery.id: (delivery, since) for delivery in deliveries})
        self._link.send("hold", LeaseList.of(deliveries), since)
        if lost:
            self._on_lost(lost)

    def settling(self, deliveries: Iterable[Delivery], now: bool = True) -> None:
        """Have the supervisor skip the leases while they are settled (``now``), or extend them again."""
        young = time.monotonic() - self._young
        with self._lock:
            held = [delivery for delivery in deliveries if self._holds(delivery)]
            change = self._settling.update if now else self._settling.difference_update
            change([delivery.id for delivery in held])
            # Most messages are settled before their first heartbeat, so only older ones are worth a frame.
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
        """Forget leases that the supervisor's heartbeat did not find, and report them as lost.

        Leases that are being settled are left out, because the heartbeat may have come after the settlement.
        """
        with self._lock:
            lost = [delivery for delivery in self._known(leases) if delivery.id not in self._settling]
            for delivery in lost:
                del self._held[delivery.id]
        if lost:
            self._on_lost(lost)

    def cancelled(self, leases: LeaseList) -> None:
        """Report the deliveries whose cancellation was requested."""
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
        """Do nothing: the supervisor sends the heartbeats."""

    def stop(self) -> None:
        """Do nothing: the supervisor sends heartbeats until this process has ended."""
