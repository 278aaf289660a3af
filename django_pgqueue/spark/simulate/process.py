"""A worker process of the simulation: it leases messages ahead of its own handlers, and no other process runs them."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from django_pgqueue.spark.simulate.lane import SimulatedLane, SimulatedMessage
from django_pgqueue.spark.simulate.pace import SimulatedPace


class SimulatedLease(NamedTuple):
    """A message that is leased, or will be ready again. ``attempt``: the number of attempts before; ``due_at``: in
    microseconds; ``process``: the one that leased it.
    """

    lane: SimulatedLane
    message: SimulatedMessage
    attempt: int
    due_at: int = 0
    process: SimulatedProcess | None = None


class SimulatedProcess:
    """A process with ``slots`` handlers. ``ahead``: the most messages of one dequeue; 0: none ahead of the slots.

    ``waiting``: the messages in its memory, in the order of their leases; ``idle``: free slots; ``asks``: it may have
    room for more.
    """

    __slots__ = ("asks", "idle", "pace", "waiting")

    def __init__(self, slots: int, ahead: int) -> None:
        self.asks = True
        self.idle = slots
        self.pace = SimulatedPace(slots, ahead)
        self.waiting: deque[SimulatedLease] = deque()

    @property
    def room(self) -> int:
        """Return how many messages the process dequeues now."""
        return self.pace.room(len(self.waiting), self.idle)
