"""The simulator beside real runs: a load as it was, and the same load under other limits, weights and workers.

Each situation is run several times, because two real runs differ, too. The prediction comes from a run as it was.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.simulate.job import Scenario, files_of, play
from django_pgqueue.spark.simulate.limits import Change
from django_pgqueue.spark.source import Source
from tests.support.paths import REPOSITORY
from tests.support.sessions import one
from verification.benchmarks.cluster import Cluster

from .database import DATABASE, archive

# Messages at once and the seconds of each, by channel; then one each 50 ms in the channel `steady`.
BURST = {"limited": (80, 0.1), "rated": (30, 0.02), "greedy": (160, 0.05), "plain": (100, 0.05)}
STEADY, STEADY_SECONDS, STEADY_EVERY = 60, 0.02, 0.05
AS_IT_WAS: dict[str, dict[str, Any]] = {
    "limited": {"max_concurrency": 2}, "rated": {"release_interval": "150 ms"}, "greedy": {}, "plain": {},
    "steady": {},
}  # fmt: skip
PATIENCE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Situation:
    """The differences from the load as it was. ``set``: the options of ``simulate --set`` that say the same."""

    name: str
    limits: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    set: tuple[str, ...] = ()
    processes: int = 2
    concurrency: int = 4


SITUATIONS = (
    Situation("as it was"),
    Situation("limited: 5 at a time", {"limited": {"max_concurrency": 5}}, ("limited.max_concurrency=5",)),
    Situation("rated: each 60 ms", {"rated": {"release_interval": "60 ms"}}, ("rated.release_interval=60ms",)),
    Situation("greedy: weight 4", {"greedy": {"weight": 4}}, ("greedy.weight=4",)),
    Situation("one worker process", processes=1),
    Situation("8 handlers a process", concurrency=8),
)
# Seconds of a wait at p50 and p95.
Pair = tuple[float, float]


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report. ``rows`` does not matter: the load is always the same."""
    with archive(0) as cluster, tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-") as folder:
        for number in range(rounds):
            for place, situation in enumerate(SITUATIONS):
                real_run(cluster, situation, queue(place, number))
        lake = Path(folder) / "lake"
        export(Source.parse(cluster.url(DATABASE)), lake)
        files, _ = files_of(ParquetLake.open(lake), None)
        return compare(files, rounds)


def compare(files: dict[str, list[str]], rounds: int) -> list[str]:
    """Return a line for each situation and channel, and the errors of all of them."""
    lines, errors = [], []
    for place, situation in enumerate(SITUATIONS):
        lines.append(situation.name)
        real = [waits_of(play(Scenario(queue(place, number), files)), "actual") for number in range(rounds)]
        predicted = [predict(situation, queue(0, number), files) for number in range(rounds)]
        for channel in real[0]:
            cells = []
            for percentile in (0, 1):
                truths = [run[channel][percentile] for run in real]
                found = median(run[channel][percentile] for run in predicted)
                error = (found - median(truths)) / max(median(truths), 1e-9)
                errors.append((percentile, abs(error)))
                cells.append(f"{median(truths):.2f} ({min(truths):.2f} to {max(truths):.2f}) {found:.2f} {error:+.0%}")
            lines.append(f"  {channel:8} p50 {cells[0]:36} p95 {cells[1]}")
    for percentile, name in enumerate(("p50", "p95")):
        shares = sorted(error for which, error in errors if which == percentile)
        lines.append(f"{name}: median error {median(shares):.0%}, largest {shares[-1]:.0%} of {len(shares)}")
    return ["the simulator beside real runs: seconds of wait, real (from to), predicted, error", *lines]


def queue(place: int, number: int) -> str:
    """Return the queue of a run: each has one of its own."""
    return f"situation-{place}-{number}"


def predict(situation: Situation, base: str, files: dict[str, list[str]]) -> dict[str, Pair]:
    """Return what the simulator makes of a run as it was, with what differs in this situation."""
    changed = (situation.processes, situation.concurrency) != (2, 4)
    scenario = Scenario(
        base,
        files,
        tuple(map(Change.parse, situation.set)),
        workers=situation.processes if changed else None,
        concurrency=situation.concurrency if changed else None,
    )
    return waits_of(play(scenario), "simulated")


def waits_of(outcome: Any, which: str) -> dict[str, Pair]:
    """Return p50 and p95 by channel."""
    return {name: getattr(waits, which)[:2] for name, waits in sorted(outcome.channels.items())}


def real_run(cluster: Cluster, situation: Situation, name: str) -> None:
    """Run the load in a queue of its own, with workers of its own."""
    with cluster.connect(DATABASE) as session:
        for channel, limits in AS_IT_WAS.items():
            given = limits | situation.limits.get(channel, {})
            session.execute("SELECT pgqueue_channel_set(%s, %s, %s)", [name, channel, Jsonb(given)])
        with workers(cluster, session, situation, name):
            for channel, (messages, seconds) in BURST.items():
                enqueue(session, name, channel, messages, seconds)
            for _ in range(STEADY):
                enqueue(session, name, "steady", 1, STEADY_SECONDS)
                time.sleep(STEADY_EVERY)
            wait_for(session, "SELECT NOT EXISTS (SELECT FROM pgqueue_message)")


def enqueue(session: psycopg.Connection[Any], name: str, channel: str, messages: int, seconds: float) -> None:
    session.execute(
        "SELECT count(*) FROM pgqueue_enqueue_many(array_fill('benchmark.sleep'::text, ARRAY[%s]),"
        " array_fill(%s::jsonb, ARRAY[%s]), array_fill(%s::text, ARRAY[%s]), array_fill(%s::text, ARRAY[%s]))",
        [messages, Jsonb({"seconds": seconds}), messages, channel, messages, name, messages],
    )


@contextmanager
def workers(cluster: Cluster, session: psycopg.Connection[Any], situation: Situation, name: str) -> Iterator[None]:
    """Workers of this queue that are up, with as many processes and handlers as the situation says."""
    command = [sys.executable, "-m", "django", "runqueueworker", "--skip-checks", "--no-reload", f"--queue={name}"]
    command += [f"--processes={situation.processes}", f"--concurrency={situation.concurrency}"]
    variables = {
        **os.environ,
        "DATABASE_URL": cluster.url(DATABASE),
        "DJANGO_SETTINGS_MODULE": "verification.benchmarks.settings",
        "PYTHONPATH": str(REPOSITORY),
        "PGQUEUE_SILENT": "1",
    }
    working = "SELECT count(*) = %s FROM pgqueue_worker WHERE concurrency > 0 AND state = 'running' AND queues ? %s"
    with subprocess.Popen(command, env=variables, cwd=REPOSITORY) as process:
        try:
            wait_for(session, working, situation.processes, name)
            yield
            process.send_signal(signal.SIGTERM)
            if process.wait(PATIENCE_SECONDS) != 0:
                raise SystemExit("the worker failed")
        finally:
            process.kill()


def wait_for(session: psycopg.Connection[Any], sql: str, *parameters: object) -> None:
    """Ask until the answer is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not one(session, sql, *parameters):
        if time.monotonic() > deadline:
            raise SystemExit(f"it takes too long: {sql}")
        time.sleep(0.1)
