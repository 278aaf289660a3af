"""The protocol of a public harness that compares job queues: its settings, its samples, the pace of its producer.

The harness (hardbyte/postgresql-job-queue-benchmarking) starts one long process for each queue. It passes settings in
the environment, may send `ENQUEUE <n>` on standard input, and reads one JSON record a line from standard output: a
descriptor, and then one record for each metric, every few seconds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

WINDOW_SECONDS = 30.0  # of the latencies
MOST_LATENCIES = 32_768
IDLE_SECONDS = 0.05  # between two looks at a queue that is deep enough, or at a rate of zero
# Only the first of several processes reports these: they are the same for all of them.
OF_ALL = ("queue_depth", "producer_target_rate")


@dataclass(frozen=True, slots=True)
class Settings:
    """The environment of the harness.

    mode            `fixed`: `rate` jobs a second; `depth-target`: as many as keep `depth` jobs waiting
    paced           whether the harness sends the numbers of jobs on standard input
    batch, period   at most so many jobs a call, about every so many seconds
    workers         jobs that run at the same time
    payload, work   bytes of a job, and seconds that it takes
    every           seconds between two samples
    rate_file       a file whose content replaces `rate` while the run goes on
    """

    scenario: str
    mode: str
    paced: bool
    rate: float
    depth: int
    batch: int
    period: float
    workers: int
    payload: int
    work: float
    every: float
    instance: int
    rate_file: str | None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings:
        def number(name: str, default: float) -> float:
            return float(environment.get(name, default))

        mode = environment.get("PRODUCER_MODE", "fixed")
        return cls(
            scenario=environment.get("SCENARIO", "long_horizon"),
            mode=mode,
            paced=mode == "fixed" and environment.get("PRODUCER_PACING") == "harness",
            rate=number("PRODUCER_RATE", 800),
            depth=int(number("TARGET_DEPTH", 1_000)),
            batch=max(1, int(number("PRODUCER_BATCH_MAX", 128))),
            period=max(1.0, number("PRODUCER_BATCH_MS", 10)) / 1_000,
            workers=int(number("WORKER_COUNT", 32)),
            payload=int(number("JOB_PAYLOAD_BYTES", 256)),
            work=number("JOB_WORK_MS", 1) / 1_000,
            every=number("SAMPLE_EVERY_S", 5),
            instance=int(number("BENCH_INSTANCE_ID", 0)),
            rate_file=environment.get("PRODUCER_RATE_CONTROL_FILE"),
        )

    def rate_now(self) -> float:
        """Return the jobs a second that are asked for at this moment."""
        with suppress(OSError, ValueError):
            if self.rate_file:
                return float(Path(self.rate_file).read_text())
        return self.rate


@dataclass(slots=True)
class Meter:
    """Count the events of this process; handlers and the producer write, the sampler reads."""

    enqueued: int = 0
    completed: int = 0
    latencies: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MOST_LATENCIES))
    seen: tuple[float, int, int] | None = None

    def started(self, now: float, milliseconds: float) -> None:
        self.latencies.append((now, max(0.0, milliseconds)))

    def take(self, now: float) -> dict[str, tuple[float, float]]:
        """Return each metric with its window in seconds; rates are those since the last time."""
        then, enqueued, completed = self.seen or (now, self.enqueued, self.completed)
        self.seen = (now, self.enqueued, self.completed)
        seconds = max(now - then, 0.001)
        recent = sorted(value for at, value in list(self.latencies) if at >= now - WINDOW_SECONDS)
        waits = {
            f"claim_p{percent}_ms": (
                recent[round(percent / 100 * (len(recent) - 1))] if recent else 0.0,
                WINDOW_SECONDS,
            )
            for percent in (50, 95, 99)
        }
        return {
            **waits,
            "enqueue_rate": ((self.enqueued - enqueued) / seconds, seconds),
            "completion_rate": ((self.completed - completed) / seconds, seconds),
        }


def stamp(now: float) -> str:
    """Return a time in seconds since 1970 as the harness writes it."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def descriptor(
    manifest: Mapping[str, Any], settings: Settings, version: str, database: str, now: float
) -> dict[str, Any]:
    """Return the first record: which queue this is, and which tables of it are watched."""
    return {
        "kind": "descriptor",
        "system": manifest["system"],
        "event_tables": manifest["event_tables"],
        "extensions": manifest["extensions"],
        "version": version,
        "schema_version": version,
        "db_name": database,
        "started_at": stamp(now),
        "instance_id": settings.instance,
    }


def samples(
    system: str, settings: Settings, metrics: Mapping[str, tuple[float, float]], now: float
) -> Iterator[dict[str, Any]]:
    """Yield one record for each metric."""
    for metric, (value, window) in metrics.items():
        if settings.instance and metric in OF_ALL:
            continue
        yield {
            "t": stamp(now),
            "system": system,
            "kind": "adapter",
            "subject_kind": "adapter",
            "subject": "",
            "metric": metric,
            "value": round(float(value), 3),
            "window_s": round(window, 3),
            "instance_id": settings.instance,
        }


def first_sample(now: float, every: float) -> float:
    """Return the seconds to the next multiple of `every`: samples of all queues fall together."""
    return every - now % every


def asked_for(source: IO[str]) -> Iterator[int]:
    """Yield the number of jobs of each `ENQUEUE <n>` that the harness sends."""
    for line in source:
        word, _, number = line.strip().partition(" ")
        if word == "ENQUEUE" and number.isdecimal():
            yield int(number)


def own_pace(
    settings: Settings,
    depth: Callable[[], int],
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[int]:
    """Yield how many jobs to enqueue now: by the time that went by, however long a call took, or by the depth."""
    credit, last = 0.0, clock()
    while not stop.is_set():
        if settings.mode == "depth-target":
            number = min(settings.batch, settings.depth - depth())
            pause = IDLE_SECONDS
        else:
            now, rate = clock(), settings.rate_now()
            credit, last = (credit + rate * (now - last) if rate > 0 else 0.0), now
            number = min(settings.batch, int(credit))
            credit -= number
            pause = settings.period if rate > 0 else IDLE_SECONDS
        if number > 0:
            yield number
        if number < settings.batch:
            wait(pause)
