"""Shared limits in the simulation, by the rules of pgqueue_lease_within and pgqueue_promote_within."""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from math import ceil

from django_pgqueue.spark.simulate.lane import Ready, SimulatedLane, SimulatedMessage
from django_pgqueue.spark.simulate.limits import SharedLimits

NO_LIMIT = 1 << 63


class SimulatedLimit:
    """A shared limit: its places, the cost in flight, its tokens, and the messages that wait for it, by channel.

    ``promised``: messages that were made ready and are not leased yet. Times in microseconds.
    """

    def __init__(self, limits: SharedLimits) -> None:
        self.limits = limits
        self.used = 0
        self.cost = 0
        self.promised: set[SimulatedMessage] = set()
        self.tokens = float(limits.release_burst)
        self.filled_at = 0
        self.waiting: dict[SimulatedLane, list[Ready]] = {}
        self._numbers: dict[SimulatedLane, int] = {}
        self._lanes: list[SimulatedLane] = []
        self._in_turn: list[int] = []
        self._last = -1
        self._left = 0

    def has_room(self, cost: int, now: int) -> bool:
        """Return whether a message of this cost may be leased now."""
        limits = self.limits
        return (
            (limits.max_concurrency is None or self.used < limits.max_concurrency)
            and (limits.max_cost is None or limits.max_cost - self.cost >= min(cost, limits.max_cost))
            and self._tokens(now) >= min(cost, limits.release_burst)
        )

    def take(self, cost: int, now: int) -> None:
        """Count a message that is leased now."""
        self.used += 1
        self.cost += cost
        if self.limits.release_interval is not None:
            self.tokens = self._tokens(now) - cost
            self.filled_at = now

    def give_back(self, cost: int) -> None:
        """Count a message that is settled."""
        self.used -= 1
        self.cost -= cost

    def wait(self, lane: SimulatedLane, entry: Ready) -> None:
        """Keep a message apart until the limit has room."""
        if lane not in self.waiting:
            self.waiting[lane] = []
            number = self._numbers.setdefault(lane, len(self._lanes))
            if number == len(self._lanes):
                self._lanes.append(lane)
            insort(self._in_turn, number)
        heapq.heappush(self.waiting[lane], entry)

    def promote(self, now: int) -> Iterator[tuple[SimulatedLane, Ready]]:
        """Yield the messages that become ready: the channels take turns, by weight."""
        while self.waiting and self._fits(self._next.cost, now):
            number = self._number
            lane = self._lanes[number]
            self._left = (self._left if number == self._last and self._left else lane.limits.weight) - 1
            self._last = number
            entry = heapq.heappop(self.waiting[lane])
            self.promised.add(entry[3])
            if not self.waiting[lane]:
                del self.waiting[lane]
                self._in_turn.remove(number)
                self._left = 0
            yield lane, entry

    def opens_at(self, now: int) -> int | None:
        """Return when the rate has the tokens that the next message needs; None if no message waits for tokens.

        ``now`` and the result are in microseconds.
        """
        interval, burst = self.limits.release_interval, self.limits.release_burst
        if not self.waiting or interval is None:
            return None
        missing = min(self._next.cost, burst) + self._promised_cost - self._tokens(now)
        return now + max(1, ceil(missing * interval)) if missing > 0 else None

    @property
    def _next(self) -> SimulatedMessage:
        return self.waiting[self._lanes[self._number]][0][3]

    @property
    def _number(self) -> int:
        """Return which lane has its turn: that of the last message until its turn is over, then the one behind it."""
        if self._left and self._lanes[self._last] in self.waiting:
            return self._last
        return self._in_turn[bisect_right(self._in_turn, self._last) % len(self._in_turn)]

    @property
    def _promised_cost(self) -> int:
        return sum(message.cost for message in self.promised)

    def _tokens(self, now: int) -> float:
        interval = self.limits.release_interval
        if interval is None:
            return float(NO_LIMIT)
        return min(float(self.limits.release_burst), self.tokens + (now - self.filled_at) / interval)

    def _fits(self, cost: int, now: int) -> bool:
        """Return whether a message of this cost has room beside those that were made ready before."""
        limits, more = self.limits, self._promised_cost
        return (
            (limits.max_concurrency is None or self.used + len(self.promised) < limits.max_concurrency)
            and (limits.max_cost is None or limits.max_cost - self.cost - more >= min(cost, limits.max_cost))
            and self._tokens(now) - more >= min(cost, limits.release_burst)
        )


class SimulatedLimits:
    """All shared limits of a simulation. A message that waits for its turn holds up no other."""

    def __init__(self, limits: Iterable[SharedLimits]) -> None:
        self._limits = {each.name: SimulatedLimit(each) for each in limits}
        self._promised: dict[int, SimulatedLimit] = {}

    def full(self, message: SimulatedMessage, now: int) -> SimulatedLimit | None:
        """Return the limit that the message must wait for: it has no room, or others wait for it; None: none."""
        promised = self._promised.pop(message.id, None)
        if promised is not None:
            promised.promised.discard(message)
        for name in message.shared:
            limit = self._limits[name]
            if not limit.has_room(message.cost, now) or (limit.waiting and promised is None):
                return limit
        return None

    def take(self, message: SimulatedMessage, now: int) -> None:
        """Count a message that is leased now."""
        for name in message.shared:
            self._limits[name].take(message.cost, now)

    def give_back(self, message: SimulatedMessage) -> None:
        """Count a message that is settled."""
        for name in message.shared:
            self._limits[name].give_back(message.cost)

    def promote(self, now: int) -> Iterator[tuple[SimulatedLane, Ready]]:
        """Yield the messages that become ready now, with their lanes."""
        for limit in self._limits.values():
            for lane, entry in limit.promote(now):
                self._promised[entry[3].id] = limit
                yield lane, entry

    def opens_at(self, now: int) -> int | None:
        """Return when the next token comes that a message waits for."""
        return min((at for limit in self._limits.values() if (at := limit.opens_at(now)) is not None), default=None)

    def left(self) -> Iterator[str]:
        """Yield the channel of each message that waits still."""
        for limit in self._limits.values():
            for entries in limit.waiting.values():
                yield from (entry[3].channel for entry in entries)
