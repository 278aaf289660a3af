"""Estimate from the archive how many handlers ran at once, and how long they ran.

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
    """A lease in the past, or the run of its handler, where the archive knows when that started.

    ``start``, ``end``: microseconds since 1970; ``worker``: the worker that held it; ``row``: the row of its message;
    ``place``: the number of the attempt, from 0; -1 is the last attempt. ``started``: ``start`` is that of the handler.
    """

    start: int
    end: int
    worker: str
    row: int
    place: int
    started: bool = False


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of the workers. ``workers``: the most processes at one time; ``concurrency``: handlers of each,
    at least.
    """

    workers: int
    concurrency: int

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> Capacity:
        """Estimate the capacity from all leases, in the order of their start.

        When a message is settled, the leases that are older and not settled have running handlers: these run beside its
        own.
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
    """Remove the leases that are settled by ``until``.

    Returns the most leases that were older than one of them and went on.
    """
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
    """Return the largest number of spans that overlap."""
    steps = sorted(step for start, end in spans for step in ((start, 1), (end, -1)))
    highest = now = 0
    for _, step in steps:
        now += step
        highest = max(highest, now)
    return highest


def runs(attempts: Iterable[Attempt], concurrency: int) -> Iterator[tuple[Attempt, int]]:
    """Yield each attempt with the microseconds of its handler.

    Where only the lease is known, its handler began when a slot was free, in the order of the leases.
    """
    busy: defaultdict[str, list[int]] = defaultdict(list)
    for attempt in attempts:
        ends = busy[attempt.worker]
        start = attempt.start
        if len(ends) == concurrency:
            free = heapq.heappop(ends)
            start = start if attempt.started else max(start, free)
        heapq.heappush(ends, attempt.end)
        yield attempt, max(attempt.end - start, 0)
