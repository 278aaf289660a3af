"""Show the leases of a child to its supervisor, whose lease keeper extends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.hold.board import Board
from django_pgqueue.worker.link.pipe import LeaseList

Deliveries = Callable[[list[Delivery]], None]


class RemoteKeeper:
    """Keep the leases of a child: the board shows which leases are held, and the supervisor sends the heartbeats.

    The producer, the completer and atomic handlers of a child use it in place of a LeaseKeeper. ``board``: shared with
    the supervisor. ``on_lost``: called with deliveries whose leases are lost. ``on_cancelled``: called with deliveries
    whose cancellation was requested. Each message passes it several times, so it looks up ids, and compares tokens only
    if the objects differ.
    """

    def __init__(self, board: Board, *, on_lost: Deliveries, on_cancelled: Deliveries) -> None:
        self._board = board
        self._on_lost = on_lost
        self._on_cancelled = on_cancelled
        self._held: dict[int, Delivery] = {}
        self._settling: set[int] = set()
        self._lock = threading.Lock()

    def hold(self, deliveries: Iterable[Delivery], since: float) -> None:
        """Hold the leases. ``since``: time.monotonic() before they were taken."""
        deliveries = list(deliveries)
        with self._lock:
            # If a message is here already, its first lease has ended: it is lost, or it was settled a moment ago.
            ended = [self._held[delivery.id] for delivery in deliveries if delivery.id in self._held]
            lost = [delivery for delivery in ended if delivery.id not in self._settling]
            self._settling.difference_update([delivery.id for delivery in ended])
            self._board.release(ended)
            self._held.update({delivery.id: delivery for delivery in deliveries})
            self._board.hold(deliveries, since)
        if lost:
            self._on_lost(lost)

    def settling(self, deliveries: Iterable[Delivery], now: bool = True) -> None:
        """Do not report the leases as lost while they are settled (``now``), or do so again."""
        with self._lock:
            change = self._settling.update if now else self._settling.difference_update
            change([delivery.id for delivery in deliveries if self._holds(delivery)])

    def release(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Forget the leases. Returns those that were held until now."""
        with self._lock:
            released, forgotten = [], []
            for delivery in deliveries:
                if self._holds(delivery):
                    released.append(delivery)
                    # Not always the same object, and the board knows the one that was held.
                    forgotten.append(self._held.pop(delivery.id))
            self._settling.difference_update([delivery.id for delivery in forgotten])
            self._board.release(forgotten)
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
            self._board.release(lost)
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
        return held is not None and (held is delivery or held.token == delivery.token)

    def _known(self, leases: LeaseList) -> list[Delivery]:
        held = [(self._held.get(message), token) for message, token in leases.pairs()]
        return [delivery for delivery, token in held if delivery is not None and int(delivery.token or 0) == token]

    def start(self) -> None:
        """Do nothing: the supervisor sends the heartbeats."""

    def stop(self) -> None:
        """Do nothing: the supervisor sends heartbeats until this process has ended."""
