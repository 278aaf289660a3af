"""How NOTIFY pays off: the time from a commit to the start of its handler, and the throughput under constant load."""

from __future__ import annotations

import random
import time
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

from tests.support.sessions import row_of

from .cluster import Cluster
from .design import PGQUEUE
from .measure import WARM_UP, Figures, Run, fresh, over
from .worker import worker

ENQUEUE = "SELECT id FROM pgqueue_enqueue('benchmark.stamp', '{\"flight\": 1545, \"carrier\": \"UA\"}', 'c1')"
# Seconds between two messages: long enough for the worker to fall asleep again.
PAUSE = (0.05, 0.15)
FIRST = 5
PATIENCE_SECONDS = 60.0


def idle_latency(cluster: Cluster, *, messages: int, options: tuple[str, ...]) -> Figures:
    """Microseconds from the return of the commit to the first line of the handler, message by message."""
    with fresh(cluster, PGQUEUE, channels=1) as run, TemporaryDirectory() as folder:
        stamps = Path(folder) / "stamps"
        run.stack.enter_context(worker(run, "--concurrency", "4", *options, PGQUEUE_STAMPS=str(stamps)))
        # The first ones wait for the worker to start, and fill its caches.
        committed = [enqueue(run) for _ in range(FIRST)]
        started = wait_for_starts(stamps, FIRST)
        for _ in range(messages):
            time.sleep(random.uniform(*PAUSE))
            committed.append(enqueue(run))
        started = wait_for_starts(stamps, FIRST + messages)
        # A handler may start before the enqueuer has read that its commit is done.
        delays = [max(0, started[message] - at) / 1000 for message, at in committed[FIRST:]]
        percentiles = quantiles(delays, n=100, method="inclusive")
        remarks = {"p95 µs": percentiles[94], "p99 µs": percentiles[98], "highest µs": max(delays)}
        return Figures(percentiles[49], remarks=remarks)


def enqueue(run: Run) -> tuple[int, int]:
    """Id of the message, and when its commit returned."""
    [message] = row_of(run.connection.execute(ENQUEUE, prepare=True))
    return message, time.monotonic_ns()


def wait_for_starts(stamps: Path, count: int) -> dict[int, int]:
    """When the handler of each message started; the clock is the same in all processes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        lines = stamps.read_text().splitlines() if stamps.exists() else []
        if len(lines) >= count:
            return {int(message): int(at) for message, at in map(str.split, lines)}
        time.sleep(0.05)
    raise RuntimeError(f"fewer than {count} messages were handled within {PATIENCE_SECONDS:.0f} s")


def sustained(cluster: Cluster, *, seconds: float, options: tuple[str, ...]) -> Figures:
    """16 producers that enqueue one by one at full speed, one worker with 8 slots; messages enqueued per second."""
    with fresh(cluster, PGQUEUE, channels=16) as run:
        run.checkpoint()
        run.stack.enter_context(worker(run, "--concurrency", "8", *options))
        wait_for_worker(run)
        producers = run.clients("enqueue", clients=16, seconds=WARM_UP + seconds + 1)
        figures = over(run, [producers], seconds)
        return Figures(figures.remarks["enqueued/s"], remarks={"completed/s": figures.value})


def wait_for_worker(run: Run) -> None:
    """Until it has done a message: its start is not measured."""
    run.connection.execute("SELECT pgqueue_enqueue('benchmark.noop')")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not run.sample().completed:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the worker did nothing within {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.05)
