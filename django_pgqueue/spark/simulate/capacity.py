"""How much the workers can do at once, and how long their handlers took: what the archive shows of it.

A worker leases messages ahead of its handlers, so a lease is longer than the run of its handler, and there are more
leases than handlers that run. It starts messages in the order of their leases.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Attempt(NamedTuple):
    """A lease that was: from when to when (microseconds), whose, and of which message (``row``). ``place``: which of
    its attempts."""

    start: int
    end: int
    worker: str
    row: int
    place: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """``workers``: processes at work at the same time, the most; ``concurrency``: of each, at least."""

    workers: int
    concurrency: int

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> Capacity:
        """From all leases, in the order of their start.

        When a message is settled, those that were leased before it and are not, are running: so many handlers there
        are besides its own.
        """
        lives: dict[str, tuple[int, int]] = {}
        leased: defaultdict[str, list[int]] = defaultdict(list)
        settling: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        beside = 0
        for start, end, worker, *_ in attempts:
            first, last = lives.get(worker, (start, end))
            lives[worker] = (first, max(last, end))
            beside = max(beside, _settle(leased[worker], settling[worker], start))
            insort(leased[worker], start)
            heapq.heappush(settling[worker], (end, start))
        for worker, left in settling.items():
            beside = max(beside, _settle(leased[worker], left, None))
        return cls(workers=max(_most(lives.values()), 1), concurrency=beside + 1)


def _settle(leased: list[int], settling: list[tuple[int, int]], until: int | None) -> int:
    """Take what is settled by then away. Returns the most leases older than one of them that went on."""
    beside = 0
    while settling and (until is None or settling[0][0] <= until):
        end = settling[0][0]
        together = []
        while settling and settling[0][0] == end:
            _, start = heapq.heappop(settling)
            del leased[bisect_left(leased, start)]
            together.append(start)
        beside = max(beside, max(bisect_left(leased, start) for start in together))
    return beside


def _most(spans: Iterable[tuple[int, int]]) -> int:
    """How many of them there are at the same time, at the most."""
    steps = sorted(step for start, end in spans for step in ((start, 1), (end, -1)))
    highest = now = 0
    for _, step in steps:
        now += step
        highest = max(highest, now)
    return highest


def runs(attempts: Iterable[Attempt], concurrency: int) -> Iterator[tuple[Attempt, int]]:
    """How long the handler of each attempt took: it began when a slot was free, in the order of the leases."""
    busy: defaultdict[str, list[int]] = defaultdict(list)
    for attempt in attempts:
        ends = busy[attempt.worker]
        start = attempt.start
        if len(ends) == concurrency:
            start = max(start, heapq.heappop(ends))
        heapq.heappush(ends, attempt.end)
        yield attempt, max(attempt.end - start, 0)
