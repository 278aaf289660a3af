"""The limits of a whole queue in the simulation, by the rules of pgqueue_queue_allowance."""

from __future__ import annotations

from django_pgqueue.spark.simulate.limits import QueueLimits

NO_LIMIT = 1 << 63


class SimulatedGate:
    """Keep the limits of a whole queue. ``leased``: messages of all channels; times in microseconds."""

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self.leased = 0
        self.next_at = 0

    def room(self, now: int) -> int:
        """Return how many messages may be leased now (GCRA for the rate)."""
        room = NO_LIMIT if self.limits.max_concurrency is None else self.limits.max_concurrency - self.leased
        if self.limits.release_interval is not None:
            early = (self.limits.release_burst - 1) * self.limits.release_interval
            room = min(room, (now + early - max(self.next_at, now)) // self.limits.release_interval + 1)
        return max(room, 0)

    def opens_at(self, now: int) -> int | None:
        """Return when the rate allows the next message; None if it allows one now."""
        interval = self.limits.release_interval
        at = 0 if interval is None else self.next_at - (self.limits.release_burst - 1) * interval
        return at if at > now else None

    def lease(self, count: int, now: int) -> None:
        """Count messages that are leased now. ``count``: how many; ``now``: in microseconds."""
        self.leased += count
        self.next_at = max(self.next_at, now) + count * (self.limits.release_interval or 0)
