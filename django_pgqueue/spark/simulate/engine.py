"""Simulate a queue: the line, turns, weights, limits and rates as pgqueue_take keeps them.

The module is pure: no clock, no database, no randomness. All times are whole microseconds, so that rates are exact. The
rules are those of pgqueue_take, pgqueue_take_turn, pgqueue_allowance, pgqueue_queue_allowance, pgqueue_fold and
pgqueue_take_by_share.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice

from django_pgqueue.spark.simulate.gate import SimulatedGate
from django_pgqueue.spark.simulate.lane import SimulatedLane, SimulatedMessage
from django_pgqueue.spark.simulate.limits import ChannelLimits, QueueLimits, SharedLimits
from django_pgqueue.spark.simulate.pace import SimulatedPace
from django_pgqueue.spark.simulate.share import turn_by_share
from django_pgqueue.spark.simulate.shared import SimulatedLimits

ARRIVES, SETTLES, UNPARKS, OPENS = range(4)
NEVER = 1 << 63
# The most lanes that share one call.
AT_ONCE = 16

# A function that is called when the wait of a message for its last attempt ends: with the message, and that wait.
Record = Callable[[SimulatedMessage, int], None]


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
    together; ``shared``: the shared limits, which messages name.
    """

    def __init__(
        self,
        limits: Mapping[str, ChannelLimits],
        slots: int,
        record: Record,
        *,
        ahead: int = 0,
        queue: QueueLimits | None = None,
        shared: Iterable[SharedLimits] = (),
    ) -> None:
        self._gate = SimulatedGate(queue or QueueLimits(), slots)
        self._shared = SimulatedLimits(shared)
        self._limits = limits
        self._idle = slots
        self._pace = SimulatedPace(slots, ahead)
        self._waiting: deque[tuple[SimulatedLane, SimulatedMessage, int, int]] = deque()
        self._record = record
        self._lanes: dict[str, SimulatedLane] = {}
        self._line: deque[SimulatedLane] = deque()
        self._fresh: deque[SimulatedLane] = deque()
        self._places = count(1)
        self._events: list[tuple[int, int, int, SimulatedLane, SimulatedMessage | None, int]] = []
        self._order = count()
        self._busy = 0
        self._looks: set[int] = set()

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
            self._promote(now)
            while (self._fresh or self._line) and (room := self._room(now)) and self._turn(room, now):
                self._start(now)
            if self._fresh or self._line:
                self._open(self._gate.opens_at(now))
        left = Counter(self._shared.left())
        left.update({name: len(lane.ready) + (lane.held is not None) for name, lane in self._lanes.items()})
        return SimulationResult({name: number for name, number in left.items() if number}, self._busy, now)

    def _promote(self, now: int) -> None:
        for lane, entry in self._shared.promote(now):
            if lane.limits.ordered:
                lane.held, lane.waits = entry, False
                self._enter(lane)
            else:
                _, due_at, _, message, attempt = entry
                self._arrive(lane, message, attempt, due_at)
        self._open(self._shared.opens_at(now))

    def _open(self, at: int | None) -> None:
        """Look again at a time; None: at none."""
        if at is not None and at not in self._looks:
            self._looks.add(at)
            heapq.heappush(self._events, (at, next(self._order), OPENS, SimulatedLane(ChannelLimits()), None, 0))

    def _room(self, now: int) -> int:
        """Return how many messages to dequeue now."""
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
            self._looks.discard(now)
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
        self._shared.give_back(message)
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
        elif message.dies and lane.limits.ordered and lane.limits.on_dead == "pause":
            lane.limits = replace(lane.limits, paused=True)
        if lane.limits.most is not None and lane.ready:
            self._enter(lane)

    def _arrive(self, lane: SimulatedLane, message: SimulatedMessage, attempt: int, due_at: int) -> None:
        was_empty = not lane.ready
        heapq.heappush(lane.ready, (message.rank, due_at, message.id, message, attempt))
        # A lane at its limit stays parked when more messages come.
        if was_empty and lane.held is None and not lane.waits:
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
        self._gate.short = False
        if self._gate.by_share:
            return turn_by_share(self, self._gate, self._fresh, self._line, limit, now)
        most = min(limit, AT_ONCE)
        heads = [*islice(self._fresh, most), *islice(self._line, most)][:most]
        weights = sum(lane.limits.weight for lane in heads)
        left = limit
        while left and (self._fresh or self._line):
            line = self._fresh or self._line
            lane = line.popleft()
            weight = lane.limits.weight
            share = (limit * weight + weights - 1) // weights if limit > 1 else 0
            left -= self.serve(lane, min(left, max(weight - lane.served, share)), now)
            if self.goes_on(lane):
                line.appendleft(lane)
            elif lane.in_line:
                self._line.append(lane)
            if self._gate.short:
                break
        return limit - left

    def goes_on(self, lane: SimulatedLane) -> bool:
        """Return whether the turn of a lane goes on, which keeps its place. Otherwise it draws a new one."""
        if lane.in_line and not lane.over:
            return True
        lane.place = next(self._places)
        return False

    def holders(self) -> list[SimulatedLane]:
        """Return the lanes with leased messages."""
        return [lane for lane in self._lanes.values() if lane.leased]

    def serve(self, lane: SimulatedLane, quota: int, now: int) -> int:
        """Lease up to ``quota`` messages of the lane, and move the lane. Returns how many."""
        limits = lane.limits
        room = quota
        if limits.limited:
            room, quota = self._allowance(lane, quota, now)
        got = self._take(lane, quota, now)
        # A lane whose message waits for the rate of the queue keeps its place.
        lane.over = lane.served + got >= limits.weight or not (got or self._gate.short)
        lane.served = 0 if lane.over else lane.served + got
        if lane.over:
            self._gate.forget()
        if not limits.limited:
            if not lane.ready:
                lane.in_line = False
                lane.served = 0
            return got
        self._park(lane, limits, room <= got and limits.most is not None, now)
        return got

    def _take(self, lane: SimulatedLane, quota: int, now: int) -> int:
        """Lease messages of the lane until one has to wait. Returns how many."""
        got = 0
        while got < quota and (lane.held or lane.ready) and not lane.waits:
            _, _, _, message, _ = lane.held or lane.ready[0]
            if not lane.may_start(message.cost, now) or not self._gate.may_start(message.cost, now):
                break
            limit = self._shared.full(message, now)
            if limit is None:
                self._lease(lane, now)
                got += 1
                continue
            limit.wait(lane, lane.held or heapq.heappop(lane.ready))
            lane.held, lane.waits = None, lane.limits.ordered
            self._open(limit.opens_at(now))
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
        again_at = max(lane.opens_at(), lane.parked_until or 0)
        if limits.paused or full or lane.waits or not (lane.ready or lane.held):
            lane.in_line = False
        elif again_at > now:
            lane.in_line = False
            lane.parked_until = again_at
            self._at(again_at, UNPARKS, lane)

    def _lease(self, lane: SimulatedLane, now: int) -> None:
        _, due_at, _, message, attempt = lane.held or heapq.heappop(lane.ready)
        lane.held = None
        lane.leased += 1
        lane.wanted = 1
        lane.next_at = max(lane.next_at, now) + message.cost * (lane.limits.release_interval or 0)
        self._gate.lease(message.cost, now)
        self._shared.take(message, now)
        self._waiting.append((lane, message, attempt, due_at))
        if attempt == len(message.pauses) and not message.started:
            self._record(message, now - due_at)

    def _start(self, now: int) -> None:
        while self._idle and self._waiting:
            lane, message, attempt, due_at = self._waiting.popleft()
            if attempt == len(message.pauses) and message.started:
                self._record(message, now - due_at)
            self._idle -= 1
            self._busy += message.runs[attempt]
            self._at(now + message.runs[attempt], SETTLES, lane, message, attempt)
