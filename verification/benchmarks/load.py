"""A steady load while something else goes on in the database: do the calls get slower and slower?"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise

from .cluster import Cluster
from .design import Design
from .measure import WARM_UP, Figures, Run, Sample, over
from .pgbench import Clients
from .probe import Probe, Timing, percentile
from .situation import Situation

PRODUCERS = 8
CONSUMERS = 4  # and the probe
DURING = 12  # windows
BEFORE = 3  # windows; the end is as long
PEAK_SECONDS = 6.0

# Goes on during a block; what it yields are remarks, complete when the block has ended.
Beside = Callable[[Run], AbstractContextManager[dict[str, float]]]


@dataclass(frozen=True, slots=True)
class Load:
    """`script` is what a producer repeats; it enqueues `burst` messages at once."""

    design: Design
    situation: Situation
    batch: int = 10
    script: str = "enqueue"
    burst: int = 1

    def start(self, run: Run, seconds: float, rate: float | None = None) -> list[Clients]:
        """`rate`: messages per second; None: as fast as they can."""
        calls = None if rate is None else max(1, round(rate / self.burst))
        run.tick(seconds)
        return [
            run.clients(self.script, clients=PRODUCERS, seconds=seconds, rate=calls, burst=self.burst),
            run.clients("consume", clients=CONSUMERS, seconds=seconds, batch=self.batch),
        ]


def peak(cluster: Cluster, load: Load, seconds: float = PEAK_SECONDS) -> float:
    """Messages completed per second when producers and consumers do what they can."""
    with load.situation.fresh(cluster, load.design) as run:
        return over(run, load.start(run, WARM_UP + seconds + 1), seconds).value


def keep_pace(cluster: Cluster, load: Load, *, rate: float, seconds: float, beside: Beside) -> Figures:
    """Messages completed per second in the last quarter of the time, with `rate` of them offered.

    `beside` begins after BEFORE windows without it, and goes on for `seconds`.
    """
    window = seconds / DURING
    with load.situation.fresh(cluster, load.design) as run:
        groups = load.start(run, WARM_UP + window * (BEFORE + DURING) + 2, rate)
        with Probe(run, load.batch) as probe:
            time.sleep(WARM_UP)
            samples = [run.sample()]
            _follow(run, samples, BEFORE, window)
            with beside(run) as remarks:
                _follow(run, samples, DURING, window)
            for group in groups:
                group.wait()
        end = run.sample()
        return curve(
            samples, probe.timings, {"offered/s": rate, "left behind": end.enqueued - end.completed, **remarks}
        )


def _follow(run: Run, samples: list[Sample], windows: int, window: float) -> None:
    """One more sample at the end of each window, however long a sample takes."""
    for _ in range(windows):
        due = samples[0].at + len(samples) * window
        time.sleep(max(0.0, due - time.time()))
        samples.append(run.sample())


def curve(samples: list[Sample], timings: list[Timing], remarks: dict[str, float]) -> Figures:
    """Each window, and the end beside the start."""
    windows = list(pairwise(samples))
    start, end = (samples[0], samples[BEFORE]), (samples[-1 - BEFORE], samples[-1])
    slow_start, slow_end = (percentile(timings, 0.99, first.at, last.at) for first, last in (start, end))
    return Figures(
        _rate(*end),
        series={
            "completed/s": tuple(_rate(*window) for window in windows),
            "p50 of dequeue, ms": tuple(percentile(timings, 0.5, first.at, last.at) for first, last in windows),
            "p99 of dequeue, ms": tuple(percentile(timings, 0.99, first.at, last.at) for first, last in windows),
        },
        remarks={"throughput to start": _rate(*end) / (_rate(*start) or 1), "p99 to start": slow_end / slow_start}
        | remarks,
    )


def _rate(first: Sample, last: Sample) -> float:
    return (last.completed - first.completed) / (last.at - first.at)
