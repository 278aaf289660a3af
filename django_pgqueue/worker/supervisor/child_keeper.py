"""Extend the leases of the children, which their boards show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.hold.lease_keeper import Lease, LeaseKeeper
from django_pgqueue.worker.role import Crashed
from django_pgqueue.worker.supervisor.process import Child

Key = tuple[int, UUID]


class HeldLease(NamedTuple):
    """Hold a lease as the supervisor knows it; its lease keeper takes it in place of a delivery.

    ``id``: the message's id. ``worker``: the name of the child that has the message.
    """

    id: int
    token: UUID
    worker: str


Leases = Callable[[list[HeldLease]], None]


class ChildKeeper(LeaseKeeper[HeldLease]):
    """Keep the leases of the children of a supervisor: it reads them from the boards before each round of heartbeats.

    A child shows a lease before it starts the handler, so neither a child that is stopped nor a handler that holds
    Python's lock loses it. The leases of a child that has ended are extended until they are released here.

    ``children``: returns those of the present moment. The others are those of :class:`LeaseKeeper`.
    """

    def __init__(
        self,
        using: str,
        lease: timedelta,
        *,
        children: Callable[[], Iterable[Child]],
        outage: Outage,
        on_lost: Leases,
        on_cancelled: Leases,
        crashed: Crashed,
    ) -> None:
        super().__init__(using, lease, outage=outage, on_lost=on_lost, on_cancelled=on_cancelled, crashed=crashed)
        self._children = children
        # The leases that ended here and are still on the board of a child, by its name.
        self._ended_here: dict[str, set[Key]] = {}

    def read(self, child: Child) -> None:
        """Update the leases of the child from its board, unless the child has ended."""
        with self._lock:
            if not child.board.closed:
                self._read(child)

    def read_last(self, child: Child) -> None:
        """Update the leases of a child that has ended. They are extended from then on until they are released."""
        with self._lock:
            self._read(child)

    def read_all(self) -> None:
        """Read the boards of all children, and forget what is known of other boards."""
        children = list(self._children())
        for child in children:
            self.read(child)
        with self._lock:
            for gone in self._ended_here.keys() - {child.name for child in children}:
                del self._ended_here[gone]

    def run_once(self) -> int:
        """Read the boards, and extend all leases that are due. Returns how many. Raises the database's error."""
        self.read_all()
        return super().run_once()

    def leases(self) -> list[Lease[HeldLease]]:
        """Read the boards, and return a copy of the list of held leases."""
        self.read_all()
        return super().leases()

    def release(self, deliveries: Iterable[HeldLease]) -> list[HeldLease]:
        """Forget the leases, although the board of a child may show them a while longer. Returns those held until
        now.
        """
        leases = list(deliveries)
        with self._lock:
            # Before they leave, so that no reading of the board in between brings them back.
            for lease in leases:
                self._ended_here.setdefault(lease.worker, set()).add((lease.id, lease.token))
        return super().release(leases)

    def _read(self, child: Child) -> None:
        shown = {(lease.id, UUID(int=lease.token)): lease.held_at for lease in child.board.leases()}
        ended = self._ended_here[child.name] = self._ended_here.get(child.name, set()) & shown.keys()
        known = {each for each, lease in self._held.items() if lease.delivery.worker == child.name}
        for each in known - shown.keys():
            del self._held[each]
        for each in shown.keys() - known - ended:
            self._held[each] = Lease(HeldLease(*each, child.name), shown[each], shown[each])
