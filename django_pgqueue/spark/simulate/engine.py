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
from itertools import count

from django_pgqueue.spark.simulate.gate import SimulatedGate
from django_pgqueue.spark.simulate.keys import SimulatedKeys
from django_pgqueue.spark.simulate.lane import Ready, SimulatedLane, SimulatedMessage
from django_pgqueue.spark.simulate.limits import ChannelLimits, QueueLimits, SharedLimits
from django_pgqueue.spark.simulate.process import SimulatedLease, SimulatedProcess
from django_pgqueue.spark.simulate.share import turn_by_line, turn_by_share
from django_pgqueue.spark.simulate.shared import SimulatedLimits

ARRIVES, SETTLES, UNPARKS, OPENS = range(4)
NEVER = 1 << 63

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

    ``slots``: messages that all workers together handle at the same time, and ``processes``: the workers, which have
    equal parts of them. ``ahead``: the most messages that they dequeue at once, together, to have them in memory; 0:
    they dequeue only for idle slots. ``queue``: the limits of all channels together; ``shared``: the shared limits,
    which messages name.
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
        processes: int = 1,
    ) -> None:
        self._gate = SimulatedGate(queue or QueueLimits(), slots)
        self._shared = SimulatedLimits(shared)
        self._limits = limits
        self._keys = SimulatedKeys()
        self._asking = deque(SimulatedProcess(slots // processes, ahead // processes) for _ in range(processes))
        self._process = self._asking[0]
        self._record = record
        self._lanes: dict[str, SimulatedLane] = {}
        self._line: deque[SimulatedLane] = deque()
        self._fresh: deque[SimulatedLane] = deque()
        self._places = count(1)
        self._events: list[tuple[int, int, int, SimulatedLease | SimulatedLane | None]] = []
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
                self._enqueue(self._lane(message.channel), message, now)
                message = next(coming, None)
            while self._events and self._events[0][0] <= now:
                self._happen(*heapq.heappop(self._events))
            self._promote(now)
            while (self._fresh or self._line) and self._dequeue(now):
                pass
            if self._fresh or self._line:
                self._open(self._gate.opens_at(now))
        left = Counter(self._shared.left())
        left.update(self._keys.left())
        left.update({name: len(lane.ready) + (lane.held is not None) for name, lane in self._lanes.items()})
        return SimulationResult({name: number for name, number in left.items() if number}, self._busy, now)

    def _promote(self, now: int) -> None:
        for lane, entry in self._shared.promote(now):
            if lane.limits.ordered:
                lane.held, lane.waits = entry, False
                self._enter(lane)
            else:
                self._again(lane, entry)
        self._open(self._shared.opens_at(now))

    def _open(self, at: int | None) -> None:
        """Look again at a time; None: at none."""
        if at is not None and at not in self._looks:
            self._looks.add(at)
            self._at(at, OPENS)

    def _dequeue(self, now: int) -> bool:
        """Let one process dequeue; the processes take turns. Returns whether one got messages."""
        for _ in range(len(self._asking)):
            process = self._asking.popleft()
            process.asks = process.room > 0
            if not process.asks:
                continue  # until one of its messages is settled
            self._asking.append(process)
            self._process = process
            if (room := min(process.room, self._gate.room(now))) and self._turn(room, now):
                self._start(process, now)
                return True
        return False

    def _lane(self, channel: str) -> SimulatedLane:
        if channel not in self._lanes:
            self._lanes[channel] = SimulatedLane(self._limits.get(channel, ChannelLimits()))
        return self._lanes[channel]

    def _at(self, moment: int, kind: int, what: SimulatedLease | SimulatedLane | None = None) -> None:
        heapq.heappush(self._events, (moment, next(self._order), kind, what))

    def _happen(self, now: int, _: int, kind: int, what: SimulatedLease | SimulatedLane | None) -> None:
        if kind == OPENS:
            self._looks.discard(now)
        elif isinstance(what, SimulatedLane):
            if what.parked_until == now:
                self._enter(what)
        elif what is not None and kind == ARRIVES:
            self._arrive(what.lane, what.message, what.attempt, now)
        elif what is not None and what.process is not None:
            self._settle(now, what.lane, what.message, what.attempt, what.process)

    def _settle(
        self, now: int, lane: SimulatedLane, message: SimulatedMessage, attempt: int, process: SimulatedProcess
    ) -> None:
        process.idle += 1
        if not process.asks:
            process.asks = True
            self._asking.append(process)
        process.pace.passed(message.runs[attempt])
        self._start(process, now)
        lane.leased -= 1
        self._gate.leased -= 1
        self._shared.give_back(message)
        if attempt < len(message.pauses):
            again_at = now + message.pauses[attempt]
            if lane.limits.ordered:
                # It keeps its place, and no other message of the channel is delivered before it.
                lane.held = (message.rank, message.due_at, message.id, message, attempt + 1)
                lane.parked_until = again_at
                self._at(again_at, UNPARKS, lane)
                return
            self._at(again_at, ARRIVES, SimulatedLease(lane, message, attempt + 1))
        else:
            if following := self._keys.settle(message):
                self._again(*following)
            if message.dies and lane.limits.ordered and lane.limits.on_dead == "pause":
                lane.limits = replace(lane.limits, paused=True)
        if lane.limits.most is not None and lane.ready:
            self._enter(lane)

    def _enqueue(self, lane: SimulatedLane, message: SimulatedMessage, now: int) -> None:
        self._keys.enqueue(message)
        if message.due_at > now:
            self._at(message.due_at, ARRIVES, SimulatedLease(lane, message, 0))
        else:
            self._arrive(lane, message, 0, message.due_at)

    def _again(self, lane: SimulatedLane, entry: Ready) -> None:
        """Make a message ready that was set aside: it has its old place in its channel."""
        _, due_at, _, message, attempt = entry
        self._arrive(lane, message, attempt, due_at)

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
            if not fresh:
                lane.round = self._line[-1].round
            (self._fresh if fresh else self._line).append(lane)

    def _turn(self, limit: int, now: int) -> int:
        """Dequeue once. Returns how many messages are leased."""
        self._gate.short = False
        turn = turn_by_share if self._gate.by_share else turn_by_line
        return turn(self, self._gate, self._fresh, self._line, limit, now)

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
            room, quota = lane.allowance(quota, now)
        got = self._take(lane, quota, now)
        # A lane whose message waits for the rate of the queue keeps its place.
        lane.over = lane.served + got >= lane.turn or not (got or self._gate.short)
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
            if not lane.limits.ordered and not self._keys.is_first(message):
                self._keys.set_aside(lane, heapq.heappop(lane.ready))
                continue
            limit = self._shared.full(message, now)
            if limit is None:
                self._lease(lane, now)
                got += 1
                continue
            limit.wait(lane, lane.held or heapq.heappop(lane.ready))
            lane.held, lane.waits = None, lane.limits.ordered
            self._open(limit.opens_at(now))
        return got

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
        self._keys.deliver(message)
        self._process.waiting.append(SimulatedLease(lane, message, attempt, due_at, self._process))
        if attempt == len(message.pauses) and not message.started:
            self._record(message, now - due_at)

    def _start(self, process: SimulatedProcess, now: int) -> None:
        while process.idle and process.waiting:
            leased = process.waiting.popleft()
            run = leased.message.runs[leased.attempt]
            if leased.attempt == len(leased.message.pauses) and leased.message.started:
                self._record(leased.message, now - leased.due_at)
            process.idle -= 1
            self._busy += run
            self._at(now + run, SETTLES, leased)
