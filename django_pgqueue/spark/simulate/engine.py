"""Simulate a queue: the line, turns, weights, limits and rates as pgqueue_take keeps them.

The module is pure: no clock, no database, no randomness. All times are whole microseconds, so that rates are exact. The
rules are those of pgqueue_take, pgqueue_take_turn, pgqueue_allowance, pgqueue_queue_allowance and pgqueue_fold.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count, islice

from django_pgqueue.spark.simulate.gate import SimulatedGate
from django_pgqueue.spark.simulate.limits import ChannelLimits, QueueLimits
from django_pgqueue.spark.simulate.pace import SimulatedPace

ARRIVES, SETTLES, UNPARKS, OPENS = range(4)
NEVER = 1 << 63
# The most lanes that share one call.
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class SimulatedMessage:
    """A message to serve; times in microseconds.

    ``arrives_at``: when it becomes visible; ``due_at``: its dequeue_at, which orders it and starts its wait. ``runs``:
    how long the handler takes in each attempt; ``pauses``: the time from each failure to the next due time; ``waited``:
    the wait that it had in the archive.
    """

    id: int
    channel: str
    rank: int
    arrives_at: int
    due_at: int
    runs: tuple[int, ...]
    pauses: tuple[int, ...] = ()
    waited: int = 0


# A function that is called when the last attempt of a message begins: with the message, and its wait.
Record = Callable[[SimulatedMessage, int], None]
# The order of service within a channel, then the message and the number of attempts before.
Ready = tuple[int, int, int, SimulatedMessage, int]


class SimulatedLane:
    """The place of a channel: in the line, or parked. ``place``: its place in its last turn. ``held``: in an ordered
    channel, the message that failed, and that comes before the others."""

    __slots__ = ("held", "in_line", "leased", "limits", "next_at", "parked_until", "place", "ready", "served")

    def __init__(self, limits: ChannelLimits) -> None:
        self.limits = limits
        self.ready: list[Ready] = []
        self.held: Ready | None = None
        self.leased = 0
        self.served = 0
        self.next_at = 0
        self.in_line = False
        self.place = 0
        self.parked_until: int | None = None


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of a simulation.

    ``left``: messages that never ran, by channel, because it is paused or full. ``busy``: microseconds of handlers in
    all slots; ``ended_at``: microseconds.
    """

    left: dict[str, int]
    busy: int
    ended_at: int


class Simulation:
    """Serve messages in simulated time.

    ``slots``: messages that all workers together handle at the same time. ``ahead``: the most messages that they
    dequeue at once to have them in memory; 0: they dequeue only for idle slots. ``queue``: the limits of all channels
    together.
    """

    def __init__(
        self,
        limits: Mapping[str, ChannelLimits],
        slots: int,
        record: Record,
        *,
        ahead: int = 0,
        queue: QueueLimits | None = None,
    ) -> None:
        self._gate = SimulatedGate(queue or QueueLimits())
        self._limits = limits
        self._idle = slots
        self._pace = SimulatedPace(slots, ahead)
        self._waiting: deque[tuple[SimulatedLane, SimulatedMessage, int]] = deque()
        self._record = record
        self._lanes: dict[str, SimulatedLane] = {}
        self._line: deque[SimulatedLane] = deque()
        self._fresh: deque[SimulatedLane] = deque()
        self._places = count(1)
        self._events: list[tuple[int, int, int, SimulatedLane, SimulatedMessage | None, int]] = []
        self._order = count()
        self._busy = 0
        self._opens_at: int | None = None

    def run(self, messages: Iterable[SimulatedMessage]) -> SimulationResult:
        """Serve all messages, which come in the order of arrives_at. Returns the result."""
        coming = iter(messages)
        message = next(coming, None)
        now = 0
        while message is not None or self._events:
            now = min(message.arrives_at if message else NEVER, self._events[0][0] if self._events else NEVER)
            while message is not None and message.arrives_at <= now:
                self._arrive(self._lane(message.channel), message, 0, message.due_at)
                message = next(coming, None)
            while self._events and self._events[0][0] <= now:
                self._happen(*heapq.heappop(self._events))
            while (self._fresh or self._line) and (room := self._room(now)):
                self._gate.lease(self._turn(room, now), now)
                self._start(now)
        return SimulationResult(
            {name: len(lane.ready) for name, lane in self._lanes.items() if lane.ready}, self._busy, now
        )

    def _room(self, now: int) -> int:
        """Return how many messages to dequeue now. While the queue's rate allows none, the next time is an event."""
        opens_at = self._gate.opens_at(now)
        if opens_at is not None and opens_at != self._opens_at:
            self._opens_at = opens_at
            heapq.heappush(self._events, (opens_at, next(self._order), OPENS, SimulatedLane(ChannelLimits()), None, 0))
        return min(self._pace.room(len(self._waiting), self._idle), self._gate.room(now))

    def _lane(self, channel: str) -> SimulatedLane:
        if channel not in self._lanes:
            self._lanes[channel] = SimulatedLane(self._limits.get(channel, ChannelLimits()))
        return self._lanes[channel]

    def _at(
        self, moment: int, kind: int, lane: SimulatedLane, message: SimulatedMessage | None = None, attempt: int = 0
    ) -> None:
        heapq.heappush(self._events, (moment, next(self._order), kind, lane, message, attempt))

    def _happen(
        self, now: int, _: int, kind: int, lane: SimulatedLane, message: SimulatedMessage | None, attempt: int
    ) -> None:
        if kind == OPENS:
            return
        if kind == UNPARKS:
            if lane.parked_until == now:
                self._enter(lane)
            return
        assert message is not None
        if kind == ARRIVES:
            self._arrive(lane, message, attempt, now)
            return
        self._idle += 1
        lane.leased -= 1
        self._gate.leased -= 1
        self._pace.passed(message.runs[attempt])
        self._start(now)
        if attempt < len(message.pauses):
            again_at = now + message.pauses[attempt]
            if lane.limits.ordered:
                # It keeps its place, and no other message of the channel is delivered before it.
                lane.held = (message.rank, message.due_at, message.id, message, attempt + 1)
                lane.parked_until = again_at
                self._at(again_at, UNPARKS, lane)
                return
            self._at(again_at, ARRIVES, lane, message, attempt + 1)
        if lane.limits.most is not None and lane.ready:
            self._enter(lane)

    def _arrive(self, lane: SimulatedLane, message: SimulatedMessage, attempt: int, due_at: int) -> None:
        was_empty = not lane.ready
        heapq.heappush(lane.ready, (message.rank, due_at, message.id, message, attempt))
        # A lane at its limit stays parked when more messages come.
        if was_empty and lane.held is None:
            self._enter(lane)

    def _enter(self, lane: SimulatedLane) -> None:
        """Put a lane into the line. It is fresh, and served first for one turn, if the line has passed its last
        place.
        """
        if not lane.in_line:
            lane.in_line = True
            lane.parked_until = None
            fresh = not self._line or lane.place < self._line[0].place
            lane.place = next(self._places)
            (self._fresh if fresh else self._line).append(lane)

    def _turn(self, limit: int, now: int) -> int:
        """Dequeue once: fresh lanes first, then the line. The first 16 lanes share ``limit`` by weight.

        Returns how many messages are leased.
        """
        most = min(limit, AT_ONCE)
        heads = [*islice(self._fresh, most), *islice(self._line, most)][:most]
        weights = sum(lane.limits.weight for lane in heads)
        left = limit
        while left and (self._fresh or self._line):
            line = self._fresh or self._line
            lane = line.popleft()
            weight = lane.limits.weight
            share = (limit * weight + weights - 1) // weights if limit > 1 else 0
            left -= self._serve(lane, min(left, max(weight - lane.served, share)), now)
            if lane.in_line and lane.served:
                line.appendleft(lane)
                continue
            lane.place = next(self._places)
            if lane.in_line:
                self._line.append(lane)
        return limit - left

    def _serve(self, lane: SimulatedLane, quota: int, now: int) -> int:
        """Lease up to ``quota`` messages of the lane, and move the lane. Returns how many."""
        limits = lane.limits
        room = quota
        if limits.limited:
            room, quota = self._allowance(lane, quota, now)
        got = min(quota, len(lane.ready) + (lane.held is not None))
        for _ in range(got):
            self._lease(lane, now)
        rotate = not got or lane.served + got >= limits.weight
        lane.served = 0 if rotate else lane.served + got
        if not limits.limited:
            if not lane.ready:
                lane.in_line = False
                lane.served = 0
            return got
        if limits.release_interval is not None:
            lane.next_at += got * limits.release_interval
        self._park(lane, limits, room <= got and limits.most is not None, now)
        return got

    def _allowance(self, lane: SimulatedLane, quota: int, now: int) -> tuple[int, int]:
        """Return the free places under max_concurrency, and how many messages may go now (GCRA)."""
        limits = lane.limits
        room = quota + 1
        if limits.paused:
            room = 0
        elif limits.most is not None:
            room = max(limits.most - lane.leased, 0)
        may = min(quota, room)
        if limits.release_interval is not None:
            lane.next_at = max(lane.next_at, now)
            early = (limits.release_burst - 1) * limits.release_interval
            may = min(may, (now + early - lane.next_at) // limits.release_interval + 1)
        return room, max(may, 0)

    def _park(self, lane: SimulatedLane, limits: ChannelLimits, full: bool, now: int) -> None:
        again_at = None
        if limits.release_interval is not None:
            again_at = lane.next_at - (limits.release_burst - 1) * limits.release_interval
        if not lane.ready or limits.paused or full:
            lane.in_line = False
        elif again_at is not None and again_at > now:
            lane.in_line = False
            lane.parked_until = again_at
            self._at(again_at, UNPARKS, lane)

    def _lease(self, lane: SimulatedLane, now: int) -> None:
        _, due_at, _, message, attempt = lane.held or heapq.heappop(lane.ready)
        lane.held = None
        lane.leased += 1
        self._waiting.append((lane, message, attempt))
        if attempt == len(message.pauses):
            self._record(message, now - due_at)

    def _start(self, now: int) -> None:
        while self._idle and self._waiting:
            lane, message, attempt = self._waiting.popleft()
            self._idle -= 1
            self._busy += message.runs[attempt]
            self._at(now + message.runs[attempt], SETTLES, lane, message, attempt)
