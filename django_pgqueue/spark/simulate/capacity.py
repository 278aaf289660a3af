"""How much the workers can do at once, as the archive shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

Span = tuple[int, int]


class Attempt(NamedTuple):
    """A lease that was: from when to when (microseconds), and whose."""

    start: int
    end: int
    worker: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """``slots``: most leases at the same time; ``per_worker``: of one worker; ``workers``: most of them at work."""

    slots: int
    per_worker: int
    workers: int

    @classmethod
    def of(cls, leases: Iterable[Attempt]) -> Capacity:
        by_worker: defaultdict[str, list[Span]] = defaultdict(list)
        for start, end, worker in leases:
            by_worker[worker].append((start, end))
        lives = [(min(start for start, _ in spans), max(end for _, end in spans)) for spans in by_worker.values()]
        return cls(
            slots=most([span for spans in by_worker.values() for span in spans]),
            per_worker=max((most(spans) for spans in by_worker.values()), default=1),
            workers=max(most(lives), 1),
        )


def most(spans: list[Span]) -> int:
    """How many of them there are at the same time, at the most. One that ends when another begins gives way to it."""
    starts, ends = sorted(start for start, _ in spans), sorted(end for _, end in spans)
    highest = ended = 0
    for started, start in enumerate(starts, 1):
        while ended < len(ends) and ends[ended] <= start and ended < started - 1:
            ended += 1
        highest = max(highest, started - ended)
    return highest
