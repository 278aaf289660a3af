"""The limits of a whole queue in the simulation, by the rules of pgqueue_queue_allowance."""

from __future__ import annotations

from django_pgqueue.spark.simulate.limits import QueueLimits

NO_LIMIT = 1 << 63


class SimulatedGate:
    """Keep the limits of a whole queue. ``slots``: handlers of all workers; ``leased``: messages of all channels;
    ``wanted``: the tokens that the next message needs of the rate; ``short``: it did not find them. Times in
    microseconds.
    """

    def __init__(self, limits: QueueLimits, slots: int) -> None:
        self.limits = limits
        self.leased = 0
        self.next_at = 0
        self.wanted = 1
        self.short = False
        slots = min(slots, limits.max_concurrency or slots)
        self.most = NO_LIMIT if limits.max_share is None else max(1, int(limits.max_share * slots + 1e-6))

    @property
    def by_share(self) -> bool:
        """Return whether the channels are served by what they hold, not by turns alone."""
        return self.limits.fairness == "share" or self.limits.max_share is not None

    def room(self, now: int) -> int:
        """Return how many messages may be leased now (GCRA for the rate)."""
        room = NO_LIMIT if self.limits.max_concurrency is None else self.limits.max_concurrency - self.leased
        if self.limits.release_interval is not None:
            early = (self.limits.release_burst - 1) * self.limits.release_interval
            tokens = (now + early - max(self.next_at, now)) // self.limits.release_interval + 1
            room = min(room, tokens if self.opens_at(now) is None else 0)
        return max(room, 0)

    def opens_at(self, now: int) -> int | None:
        """Return when the rate allows the next message; None if it allows one now."""
        interval, burst = self.limits.release_interval, self.limits.release_burst
        at = 0 if interval is None else self.next_at - (burst - min(self.wanted, burst)) * interval
        return at if at > now else None

    def may_start(self, cost: int, now: int) -> bool:
        """Return whether the rate has the tokens for a message of this cost."""
        self.wanted = cost
        self.short = self.opens_at(now) is not None
        return not self.short

    def forget(self) -> None:
        """Forget what the last message needed: the turn of its lane is over, and another lane is first."""
        self.short, self.wanted = False, 1

    def lease(self, cost: int, now: int) -> None:
        """Count a message that is leased now. ``now``: in microseconds."""
        self.leased += 1
        self.wanted = 1
        self.next_at = max(self.next_at, now) + cost * (self.limits.release_interval or 0)
