"""The work of every contestant, done in the same way: each function is one run and gives its figures."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median, quantiles

from tests.support.sessions import row_of
from verification.benchmarks.cluster import Cluster
from verification.benchmarks.design import HERE, Design
from verification.benchmarks.measure import Figures, Run, fresh, rates, watch
from verification.benchmarks.writes import Rows, quiet

from .counted import counted
from .processes import Bench, Started, bench, identity, kill, wait_for
from .programs.common import Plan
from .roster import Peer, Settings

PRODUCERS = 8
SAMPLE_EVERY = 0.025  # seconds: a fast drain takes little more than one
WARM_UP = 3.0  # seconds
POISON_EVERY = 100
HEALTHY_PATIENCE = 300.0  # seconds for the backlog of those that cannot keep up
DEAD_PATIENCE = 60.0  # seconds for the last attempts of poison messages
SETTLE = 5.0  # seconds that a second worker gets to start
FIRST = 20  # messages that a worker runs before it is measured: its imports, connections, plans
LATENCY_RATE = 20  # messages per second: idle in between


@dataclass(frozen=True, slots=True)
class Scale:
    """How much: `messages` of a backlog, `seconds` of a window, at most `cap` seconds of a drain."""

    messages: int
    seconds: float
    cap: float
    rate: float
    patience: float


@dataclass(frozen=True, slots=True)
class Field:
    """The contestants on their server; `designs` are their schemas, empty and filled."""

    cluster: Cluster
    peers: tuple[Peer, ...]
    scale: Scale

    def empty(self, peer: Peer) -> Design:
        return Design(f"peer_{peer.name}", HERE / "scripts" / peer.name, partial(_install, peer))

    def filled(self, peer: Peer) -> Design:
        install = partial(_install_filled, peer, self.scale.messages)
        return Design(f"filled_{peer.name}", HERE / "scripts" / peer.name, install)

    def prepare(self, *, backlog: bool) -> None:
        for peer in self.peers:
            if peer.broker:
                counted(f"peer_{peer.name}", HERE).prepare(self.cluster)
                continue
            self.empty(peer).prepare(self.cluster)
            if backlog:
                self.filled(peer).prepare(self.cluster)


def _install(peer: Peer, cluster: Cluster, database: str) -> None:
    with bench(peer, cluster.url(database)) as opened:
        opened.program("install")


def _install_filled(peer: Peer, messages: int, cluster: Cluster, database: str) -> None:
    with bench(peer, cluster.url(database)) as opened:
        opened.program("install")
        opened.program("fill", str(messages))
    with cluster.connect(database) as connection:
        connection.execute("VACUUM (ANALYZE)")


@contextmanager
def _running(field: Field, peer: Peer, *, filled: bool = False) -> Iterator[tuple[Run, Bench]]:
    """A fresh database, or a fresh broker, with the backlog if it is to be `filled`."""
    with ExitStack() as stack:
        if peer.broker:
            broker = stack.enter_context(peer.broker.start())
            counts = broker.folder / "counts"
            counts.mkdir()
            # It is the server whose CPU is measured.
            cluster = replace(field.cluster, postmaster=broker.pid)
            run = stack.enter_context(fresh(cluster, counted(f"peer_{peer.name}", counts), channels=0))
            opened = stack.enter_context(bench(peer, broker.url, counts))
            opened.program("install")
            if filled:
                opened.program("fill", str(field.scale.messages))
        else:
            design = field.filled(peer) if filled else field.empty(peer)
            run = stack.enter_context(fresh(field.cluster, design, channels=0))
            opened = stack.enter_context(bench(peer, run.cluster.url(run.database)))
        run.checkpoint()
        yield run, opened


def drain(field: Field, peer: Peer, settings: Settings) -> Figures:
    """Messages per second of a backlog, from the first completion on; what was enqueued before is not in the costs."""
    with _running(field, peer, filled=True) as (run, opened):
        workers = opened.workers(settings)
        wait_for(lambda: run.sample().completed > 0, 60, workers)
        first, before = run.sample(), _cpu_seconds(workers)
        figures = watch(run, field.scale.messages, field.scale.cap, SAMPLE_EVERY)
        last, after = run.sample(), _cpu_seconds(workers)
        spent = (after - before) / max(last.completed - first.completed, 1) * 1e6
        remarks = {**figures.remarks, "client CPU µs per message": spent}
        if peer.broker:
            del remarks["WAL bytes per message"]
        else:
            remarks["dead rows"] = _dead_rows(run, workers)
        return replace(figures, remarks=remarks)


def sustained(field: Field, peer: Peer, settings: Settings) -> Figures:
    """Messages completed per second while 8 connections enqueue one by one as fast as they can."""
    with _running(field, peer) as (run, opened):
        workers = opened.workers(settings)
        producer = opened.producer(Plan(clients=PRODUCERS))
        wait_for(lambda: run.sample().completed > 0, 60, workers)
        time.sleep(WARM_UP)
        first = run.sample()
        time.sleep(field.scale.seconds)
        last = run.sample()
        for started in [*workers, producer]:
            started.check()
        figures = rates(first, last)
        return replace(figures, remarks={"left behind": last.enqueued - last.completed, **figures.remarks})


def latency(field: Field, peer: Peer, settings: Settings) -> Figures:
    """Milliseconds from the return of enqueue, after its commit, to the start of the handler; p50."""
    return _latency(field, peer, settings, clients=1, rate=LATENCY_RATE)


def load(field: Field, peer: Peer, settings: Settings) -> Figures:
    """The same while 8 connections offer `rate` messages a second together."""
    return _latency(field, peer, settings, clients=PRODUCERS, rate=field.scale.rate)


def _latency(field: Field, peer: Peer, settings: Settings, *, clients: int, rate: float) -> Figures:
    with _running(field, peer) as (_, opened):
        workers = opened.workers(settings)
        count = int(rate * field.scale.seconds)
        p50, p95, p99 = _percentiles(_waits(opened, workers, Plan("mark", clients, count, rate=rate), count))
        return Figures(p50, remarks={"p95": p95, "p99": p99})


def poison(field: Field, peer: Peer, settings: Settings) -> Figures:
    """How much longer the 99th percentile of healthy messages waits when each 100th message fails at every attempt."""
    count = field.scale.messages // 5
    p99 = {}
    for every in (0, POISON_EVERY):
        with _running(field, peer) as (run, opened):
            workers = opened.workers(settings)
            bad = count // every if every else 0
            plan = Plan("mark", PRODUCERS, count, rate=field.scale.rate, poison_every=every)
            p99[every] = _percentiles(_waits(opened, workers, plan, count - bad))[2]
            wait_for(partial(_has_dead, run, bad), DEAD_PATIENCE, workers)
            dead = _dead(run)
    remarks = {"p99 ms without": p99[0], "p99 ms with": p99[POISON_EVERY], "poison": bad, "dead letters": dead}
    return Figures(p99[POISON_EVERY] / p99[0], remarks=remarks)


def kill_worker(field: Field, peer: Peer, settings: Settings, *, child: bool = False) -> Figures:
    """Seconds from SIGKILL of the worker that runs a message to its next start in another one; inf: never.

    With `child` the process that runs the handler is killed, not the one that was started.
    """
    with _running(field, peer) as (_, opened):
        victim = opened.workers(settings)[0]
        opened.producer(Plan("hold", count=1)).wait(60)
        if not wait_for(lambda: "held" in opened.marks(), 60, [victim]):
            raise RuntimeError(f"{peer.name} did not start the message:\n{victim.tail()}")
        others = opened.workers(settings)
        time.sleep(SETTLE)
        killed_at = time.monotonic()
        if child:
            kill(identity(opened.marks()["held"][0].pid))
        else:
            victim.kill()
        wait_for(lambda: len(opened.marks()["held"]) > 1, field.scale.patience, others)
        held = opened.marks()["held"]
        return Figures(held[1].at - killed_at if len(held) > 1 else float("inf"))


def _waits(opened: Bench, workers: list[Started], plan: Plan, expected: int) -> list[float]:
    """Milliseconds from commit to start of each message, once the workers are warm."""
    opened.producer(Plan("mark", count=FIRST)).wait(HEALTHY_PATIENCE)
    wait_for(lambda: len(opened.marks()["started"]) >= FIRST, HEALTHY_PATIENCE, workers)
    time.sleep(WARM_UP)
    opened.forget()
    opened.producer(plan).wait(plan.count / plan.rate + HEALTHY_PATIENCE)
    if not wait_for(lambda: len(opened.marks()["started"]) >= expected, HEALTHY_PATIENCE, workers):
        raise RuntimeError(f"{opened.peer.name}: {expected} messages were to start:\n{workers[0].tail()}")
    marks = opened.marks()
    sent = {mark.key: mark.at for mark in marks["sent"]}
    first: dict[int, float] = {}
    for mark in marks["started"]:
        first.setdefault(mark.key, mark.at)
    return [(first[key] - sent[key]) * 1e3 for key in sorted(first)]


def _cpu_seconds(workers: list[Started]) -> float:
    return sum(worker.cpu_seconds() for worker in workers)


def _percentiles(waits: list[float]) -> tuple[float, float, float]:
    cuts = quantiles(waits, n=100)
    return cuts[49], cuts[94], cuts[98]


def _dead_rows(run: Run, workers: list[Started]) -> float:
    """Return dead row versions per message, once the workers are gone: sessions report their last counts then."""
    for worker in workers:
        worker.stop()
    quiet(run)
    rows = Rows.of(run)
    return (rows.updated + rows.deleted) / max(run.sample().completed, 1)


def _has_dead(run: Run, count: int) -> bool:
    return _dead(run) >= count


def _dead(run: Run) -> int:
    return row_of(run.design.run_script(run.connection, "dead"))[0]


def middle(ratios: Iterable[float]) -> float:
    """The median; nan where both never came to an end."""
    known = [ratio for ratio in ratios if ratio == ratio]
    return median(known) if known else float("nan")
