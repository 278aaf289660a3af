"""Measure a message's cost by step, with the server on one core and its clients on another, and then both on both."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.sessions import one
from verification.benchmarks import pgbench
from verification.benchmarks.cluster import Cluster
from verification.benchmarks.design import PGQUEUE
from verification.benchmarks.machine import TICKS, _sync_microseconds
from verification.benchmarks.measure import WARM_UP, fresh

from .model import CLIENTS, Machine, Step

CHANNELS = 100
CHUNK = 1 << 20  # bytes of a large write
CHUNKS = 200
RECORDS = "SELECT wal_records FROM pg_stat_wal"


@dataclass(frozen=True, slots=True)
class Work:
    """A script of the design that moves `call` messages with `commits` commits, from a backlog if it needs one."""

    name: str
    script: str
    call: int
    commits: int
    backlog_per_second: int = 0


WORKS = (
    Work("enqueue, one a call", "enqueue", 1, 1),
    Work("dequeue and complete, one a call", "consume", 1, 2, 6_000),
    Work("dequeue and complete, 50 a call", "consume", 50, 2, 60_000),
)


@dataclass(frozen=True, slots=True)
class Spent:
    rate: float
    server: float
    client: float
    wal: float
    records: float


def step(cluster: Cluster, work: Work, seconds: float) -> Step:
    """Measure one step in both ways; the costs are those with a core for each side."""
    cores = sorted(os.sched_getaffinity(0))
    apart = _spent(cluster, work, seconds, {cores[0]}, {cores[1]})
    both = _spent(cluster, work, seconds, set(cores[:2]), set(cores[:2]))
    return Step(
        work.name, apart.server, apart.client, apart.wal, apart.records, work.call, work.commits, apart.rate, both.rate
    )


def _spent(cluster: Cluster, work: Work, seconds: float, server: set[int], client: set[int]) -> Spent:
    with fresh(cluster, PGQUEUE, CHANNELS) as run, _pinned(cluster.postmaster, server):
        if work.backlog_per_second:
            run.fill(int(work.backlog_per_second * (WARM_UP + seconds + 1)))
            run.settle()
        run.checkpoint()
        clients = run.clients(work.script, clients=CLIENTS, seconds=WARM_UP + seconds + 1, batch=work.call)
        _pin(clients.process.pid, client)
        time.sleep(WARM_UP)
        first, records, spent = run.sample(), one(run.connection, RECORDS), _client_seconds(clients)
        time.sleep(seconds)
        last, records_then, spent_then = run.sample(), one(run.connection, RECORDS), _client_seconds(clients)
        clients.wait()
    done = last.completed - first.completed if work.backlog_per_second else last.enqueued - first.enqueued
    if done <= 0 or last.completed == last.enqueued:
        raise RuntimeError(f"{work.name}: {done} messages, and the backlog came to its end")
    return Spent(
        done / (last.at - first.at),
        (last.server_seconds - first.server_seconds) / done * 1e6,
        (spent_then - spent) / done * 1e6,
        (last.wal_bytes - first.wal_bytes) / done,
        (records_then - records) / done,
    )


def disk() -> Machine:
    """Measure a sync of 8 kB, and large writes with a sync each."""
    with tempfile.NamedTemporaryFile() as file:
        began = time.perf_counter()
        for number in range(CHUNKS):
            os.pwrite(file.fileno(), bytes(CHUNK), number * CHUNK)
            os.fdatasync(file.fileno())
        write = CHUNKS * CHUNK / (time.perf_counter() - began)
    return Machine(_sync_microseconds() / 1e6, write)


@contextmanager
def _pinned(postmaster: int, cores: set[int]) -> Iterator[None]:
    """Keep the server's processes, and those that it starts meanwhile, on some cores."""
    before = os.sched_getaffinity(postmaster)
    _pin_family(postmaster, cores)
    try:
        yield
    finally:
        _pin_family(postmaster, before)


def _pin_family(parent: int, cores: set[int]) -> None:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for pid in (parent, *map(int, children)):
        _pin(pid, cores)


def _pin(pid: int, cores: set[int]) -> None:
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return


def _client_seconds(clients: pgbench.Clients) -> float:
    fields = Path(f"/proc/{clients.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:13])) / TICKS


def steps(cluster: Cluster, seconds: float) -> tuple[Step, ...]:
    PGQUEUE.prepare(cluster)
    return tuple(step(cluster, work, seconds) for work in WORKS)
