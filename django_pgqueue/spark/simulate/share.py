"""Serves the channels of a simulated queue by what they hold, by the rules of pgqueue_take_by_share."""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import ceil
from typing import Protocol

from django_pgqueue.spark.simulate.gate import SimulatedGate
from django_pgqueue.spark.simulate.lane import SimulatedLane

# The lanes of each kind whose weights count.
FIRST_LANES = 100


class Server(Protocol):
    """Describe the simulation, which serves one lane at a time."""

    def serve(self, lane: SimulatedLane, quota: int, now: int) -> int:
        """Lease up to ``quota`` messages of the lane, and move it. Returns how many."""

    def goes_on(self, lane: SimulatedLane) -> bool:
        """Return whether the turn of the lane goes on, which keeps its place."""

    def holders(self) -> list[SimulatedLane]:
        """Return the lanes with leased messages."""


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
    once: set[SimulatedLane] = set()
    for by_share in (True, False) if gate.limits.fairness == "share" else (False,):
        full = set(once)
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
                got = server.serve(lane, min(cap, left, max(weight - lane.served, ceil(limit * weight / waiting))), now)
                left -= got
                if server.goes_on(lane):
                    lanes.insert(place, lane)
                    place += 1
                elif lane.in_line:
                    line.append(lane)
                if lane.limits.limited:
                    once.add(lane)
                if lane.limits.limited or not got:
                    full.add(lane)
    return limit - left
