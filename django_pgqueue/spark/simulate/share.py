"""Serve the channels of a simulated queue by turns, or by what they hold.

The rules are those of pgqueue_take and pgqueue_take_by_share.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import ceil
from typing import Protocol

from django_pgqueue.spark.simulate.gate import SimulatedGate
from django_pgqueue.spark.simulate.lane import SimulatedLane

# The most lanes that share one call by turns.
AT_ONCE = 16
# The lanes of each kind whose weights count by share.
FIRST_LANES = 100


class Server(Protocol):
    """Describe the simulation, which serves one lane at a time."""

    def serve(self, lane: SimulatedLane, quota: int, now: int) -> int:
        """Lease up to ``quota`` messages of the lane, and move it. Returns how many."""

    def goes_on(self, lane: SimulatedLane) -> bool:
        """Return whether the turn of the lane goes on, which keeps its place."""

    def holders(self) -> list[SimulatedLane]:
        """Return the lanes with leased messages."""


def turn_by_line(
    server: Server,
    gate: SimulatedGate,
    fresh: deque[SimulatedLane],
    line: deque[SimulatedLane],
    limit: int,
    now: int,
) -> int:
    """Dequeue once: fresh lanes first, then the line. The first AT_ONCE lanes share ``limit`` by weight.

    Returns how many messages are leased.
    """
    most = min(limit, AT_ONCE)
    heads = [*islice(fresh, most), *islice(line, most)][:most]
    times = ceil(limit / sum(lane.limits.weight for lane in heads)) if heads else 1
    left = limit
    while left and (fresh or line):
        lanes = fresh or line
        lane = lanes.popleft()
        begin_turn(lane, line, times, fresh=lanes is fresh)
        left -= server.serve(lane, min(left, max(lane.turn - lane.served, 1)), now)
        if server.goes_on(lane):
            lanes.appendleft(lane)
        elif lane.in_line:
            line.append(lane)
        if gate.short:
            break
    return limit - left


def begin_turn(lane: SimulatedLane, line: deque[SimulatedLane], times: int, *, fresh: bool) -> None:
    """Give a lane whose turn begins the round of the lane at the tail, or begin a round, as pgqueue_round does."""
    if lane.served:
        return
    if line and (fresh or line[-1].round > lane.round):
        lane.round = line[-1].round
    else:
        lane.round = (lane.round[0] + 1, times)


def turn_by_share(
    server: Server,
    gate: SimulatedGate,
    fresh: deque[SimulatedLane],
    line: deque[SimulatedLane],
    limit: int,
    now: int,
) -> int:
    """Dequeue once: lanes that hold less than their share first; what these leave goes to the others.

    Returns how many messages are leased.
    """
    held, left = gate.leased, limit
    heads = [*islice(fresh, FIRST_LANES), *islice(line, FIRST_LANES)]
    waiting = sum(lane.limits.weight for lane in heads) or 1
    total = sum(lane.limits.weight for lane in {*heads, *server.holders()}) or 1
    for by_share in (True, False) if gate.limits.fairness == "share" else (False,):
        full: set[SimulatedLane] = set()
        for lanes in (fresh, line):
            place = 0
            while left and place < len(lanes) and not gate.short:
                lane = lanes[place]
                weight = lane.limits.weight
                cap = min(gate.most, ceil((held + limit) * weight / total) if by_share else gate.most) - lane.leased
                if cap <= 0 or lane in full:
                    place += 1
                    continue
                del lanes[place]
                begin_turn(lane, line, ceil(limit / waiting), fresh=lanes is fresh)
                got = server.serve(lane, min(cap, left, max(lane.turn - lane.served, 1)), now)
                left -= got
                if server.goes_on(lane):
                    lanes.insert(place, lane)
                    place += 1
                elif lane.in_line:
                    line.append(lane)
                if not got:
                    full.add(lane)
    return limit - left
