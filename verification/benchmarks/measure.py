"""One measurement: a fresh database, clients, and samples of what the database says is done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import nan
from typing import Any

import psycopg

from tests.support.sessions import one, row_of

from . import pgbench
from .cluster import Cluster
from .design import Design
from .machine import busy_seconds, family_seconds

WARM_UP = 2.0
FILL_STEP = 10_000
SAMPLE_EVERY = 0.2  # seconds; a sample counts the archive, which costs some milliseconds


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of one run: the headline figure, series of windows if there are any, and remarks."""

    value: float
    series: dict[str, tuple[float, ...]] = field(default_factory=dict)
    remarks: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    enqueued: int
    completed: int
    wal_bytes: int
    server_seconds: float
    busy_seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """A fresh copy of a design's schema with `channels` channels, and the means to drive it."""

    cluster: Cluster
    design: Design
    database: str
    connection: psycopg.Connection
    channels: int
    stack: ExitStack

    def script(self, name: str, **parameters: int) -> psycopg.Cursor:
        return self.design.run_script(self.connection, name, **parameters)

    def clients(self, script: str, **options: Any) -> pgbench.Clients:
        started = pgbench.start(
            self.cluster, self.database, self.design.script(script), channels=self.channels, **options
        )
        self.stack.callback(started.stop)
        return started

    def fill(self, messages: int, channels: int | None = None) -> None:
        """Make a backlog with statistics and on disk, so that the run pays for nothing but its own work.

        channels   the first ones, which have the backlog; without it all of them
        """
        channels = channels or self.channels
        # A step begins at the first channel: it must reach the last one.
        longest = max(FILL_STEP, channels)
        for first in range(0, messages, longest):
            self.script("fill", messages=min(longest, messages - first), channels=channels)
        self.connection.execute("VACUUM (ANALYZE)")

    def settle(self) -> None:
        """Bring the channels that were filled into the line, as workers would have done long ago."""
        while self.design.has("pending") and row_of(self.script("pending"))[0]:
            self.script("tick")

    def checkpoint(self) -> None:
        self.connection.execute("CHECKPOINT")

    def tick(self, seconds: float) -> None:
        """Move the floors, as a worker does beside its messages."""
        if self.design.has("ticks"):
            self.clients("ticks", clients=1, seconds=seconds, many=200)

    def sample(self) -> Sample:
        at, enqueued, completed = row_of(self.script("progress"))
        wal = one(self.connection, "SELECT pg_current_wal_lsn() - '0/0'")
        server = family_seconds(self.cluster.postmaster)
        return Sample(at, enqueued, completed, int(wal), server, busy_seconds())


@contextmanager
def fresh(cluster: Cluster, design: Design, channels: int) -> Iterator[Run]:
    database = f"run_{design.name}"
    cluster.create_database(database, template=design.template)
    with opened(cluster, design, database, channels) as run:
        if design.has("channels"):
            run.script("channels", channels=channels)
        yield run


@contextmanager
def opened(cluster: Cluster, design: Design, database: str, channels: int) -> Iterator[Run]:
    """A database that is there already; its clients are ended with it."""
    with ExitStack() as stack:
        connection = stack.enter_context(cluster.connect(database))
        # Counting must not take a second core from what is measured.
        connection.execute("SET max_parallel_workers_per_gather = 0")
        yield Run(cluster, design, database, connection, channels, stack)


def quantile(ordered: Sequence[float], share: float, empty: float = nan) -> float:
    """Return the value below which a share of the ordered values lies, or ``empty`` without any."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else empty


def rates(first: Sample, last: Sample) -> Figures:
    seconds = last.at - first.at
    completed = last.completed - first.completed
    if last.enqueued > first.enqueued:
        remarks = {"enqueued/s": (last.enqueued - first.enqueued) / seconds}
    else:
        remarks = costs(first, last, completed, "message")
    return Figures(completed / seconds, remarks={**remarks, **cores(first, last)})


def cores(first: Sample, last: Sample) -> dict[str, float]:
    """How many were at work. With all of them the CPU was the limit, with fewer WAL syncs or locks."""
    seconds = last.at - first.at
    return {
        "server's cores": (last.server_seconds - first.server_seconds) / seconds,
        "busy cores": (last.busy_seconds - first.busy_seconds) / seconds,
    }


def costs(first: Sample, last: Sample, count: float, of: str) -> dict[str, float]:
    """Return the cost of one of `count`: unlike a rate, it hardly depends on other programs of the machine."""
    return {
        f"server CPU µs per {of}": (last.server_seconds - first.server_seconds) / max(count, 1) * 1e6,
        f"WAL bytes per {of}": (last.wal_bytes - first.wal_bytes) / max(count, 1),
    }


def mixed(cluster: Cluster, design: Design, *, channels: int, seconds: float, limits: str | None = None) -> Figures:
    """Producers and consumers at full speed; messages completed per second.

    `limits` is a script that sets them.
    """
    with fresh(cluster, design, channels) as run:
        if limits:
            run.script(limits)
        run.checkpoint()
        length = WARM_UP + seconds + 1
        run.tick(length)
        consuming = run.clients("consume", clients=8, seconds=length)
        producing = run.clients("enqueue", clients=8, seconds=length)
        return over(run, [consuming, producing], seconds)


def over(run: Run, groups: list[pgbench.Clients], seconds: float) -> Figures:
    """Count the work of clients in a window of so many seconds, which begins when they are warm."""
    time.sleep(WARM_UP)
    first = run.sample()
    time.sleep(seconds)
    last = run.sample()
    for group in groups:
        group.wait()
    return rates(first, last)


def drain(
    cluster: Cluster,
    design: Design,
    *,
    channels: int,
    backlog: int,
    batch: int,
    clients: int,
    seconds: float,
    limits: str | None = None,
) -> Figures:
    """Take a backlog away; messages completed per second, until it is gone or the time is over."""
    with fresh(cluster, design, channels) as run:
        if limits:
            run.script(limits)
        run.fill(backlog)
        run.checkpoint()
        run.tick(seconds + 1)
        consumers = run.clients("consume", clients=clients, seconds=seconds + 1, batch=batch)
        figures = watch(run, backlog, seconds)
        consumers.check()
        return figures


def watch(run: Run, backlog: int, seconds: float, every: float = SAMPLE_EVERY) -> Figures:
    """Follow others taking the backlog away, from the first completion on, so that starting up is not counted."""
    deadline = time.monotonic() + seconds
    samples = [run.sample()]
    while samples[-1].completed < backlog and time.monotonic() < deadline:
        time.sleep(every)
        now = run.sample()
        samples = [*samples, now] if samples[-1].completed else [now]
    # The last message falls somewhere between two samples: stop at the last one that saw work left.
    whole = [sample for sample in samples if 0 < sample.completed < backlog]
    if len(whole) < 2:
        raise RuntimeError(f"{samples[-1].completed} of {backlog} messages done: too few samples in between")
    return rates(whole[0], whole[-1])


def single(cluster: Cluster, design: Design, script: str, *, clients: int, seconds: float) -> Figures:
    """One statement after the other on one channel; microseconds per call as the client sees them."""
    with fresh(cluster, design, channels=1) as run:
        if design.has("plain_table"):
            design.run_script(run.connection, "plain_table")
        run.checkpoint()
        before = run.sample()
        outcome = run.clients(script, clients=clients, seconds=seconds).wait()
        calls = outcome.tps * round(seconds)
        return Figures(
            clients / outcome.tps * 1e6, remarks={"calls/s": outcome.tps, **costs(before, run.sample(), calls, "call")}
        )
