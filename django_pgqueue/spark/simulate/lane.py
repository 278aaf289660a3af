"""A message of the simulation, and the place of a channel in the simulated line."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.spark.simulate.limits import ChannelLimits


@dataclass(frozen=True, slots=True)
class SimulatedMessage:
    """A message to serve; times in microseconds.

    ``arrives_at``: when it becomes visible; ``due_at``: its dequeue_at, which orders it and starts its wait. ``runs``:
    how long the handler takes in each attempt; ``pauses``: the time from each failure to the next due time; ``waited``:
    the wait that it had in the archive; ``cost``: the tokens of rates that it takes; ``shared``: the names of its
    shared limits; ``key``: its order key; ``dies``: its last attempt makes it a dead letter. ``started``: its wait ends
    when its handler starts; otherwise at its lease, because the archive knows no more.

    A message with a key arrives when it is created, because it holds up the later ones of its key before it is due.
    """

    id: int
    channel: str
    rank: int
    arrives_at: int
    due_at: int
    runs: tuple[int, ...]
    pauses: tuple[int, ...] = ()
    waited: int = 0
    cost: int = 1
    shared: tuple[str, ...] = ()
    key: str | None = None
    dies: bool = False
    started: bool = True


# The order of service within a channel, then the message and the number of attempts before.
Ready = tuple[int, int, int, SimulatedMessage, int]


class SimulatedLane:
    """The place of a channel: in the line, or parked. ``place``: its place in its last turn. ``held``: in an ordered
    channel, the message that failed or waited, and that comes before the others; ``waits``: such a message waits for a
    shared limit. ``wanted``: the tokens that its next message needs of its rate. ``over``: its last turn is over, so it
    draws a new place. ``round``: the number of the round of its turn, and how often its weight makes the turn."""

    __slots__ = (
        "held", "in_line", "leased", "limits", "next_at", "over", "parked_until", "place", "ready", "round",
        "served", "waits", "wanted",
    )  # fmt: skip

    def __init__(self, limits: ChannelLimits) -> None:
        self.limits = limits
        self.ready: list[Ready] = []
        self.held: Ready | None = None
        self.waits = False
        self.leased = 0
        self.served = 0
        self.round = (0, 1)
        self.next_at = 0
        self.wanted = 1
        self.over = True
        self.in_line = False
        self.place = 0
        self.parked_until: int | None = None

    @property
    def turn(self) -> int:
        """Return how many messages its turn has."""
        return self.round[1] * self.limits.weight

    def opens_at(self) -> int:
        """Return when the rate lets the next message start (GCRA); 0 without a rate."""
        interval, burst = self.limits.release_interval, self.limits.release_burst
        return 0 if interval is None else self.next_at - (burst - min(self.wanted, burst)) * interval

    def may_start(self, cost: int, now: int) -> bool:
        """Return whether the rate has the tokens for a message of this cost."""
        self.wanted = cost
        return self.opens_at() <= now

    def allowance(self, quota: int, now: int) -> tuple[int, int]:
        """Return the free places under max_concurrency, and how many messages may go now (GCRA).

        ``quota``: how many the turn may have; ``now``: in microseconds.
        """
        limits = self.limits
        room = quota + 1
        if limits.paused:
            room = 0
        elif limits.most is not None:
            room = max(limits.most - self.leased, 0)
        may = min(quota, room)
        if limits.release_interval is not None:
            self.next_at = max(self.next_at, now)
            early = (limits.release_burst - 1) * limits.release_interval
            may = min(may, (now + early - self.next_at) // limits.release_interval + 1)
        return room, max(may, 0)
