"""A line that is nearly empty: few messages, many consumers. Measures the server's cost of a message, and its wait."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from math import inf
from types import TracebackType
from typing import Self

import psycopg

from tests.support.sessions import row_of

from .cluster import Cluster
from .contest import Contest
from .design import CHANNEL_ROW, PGQUEUE, Design
from .measure import WARM_UP, Figures, Run, cores, costs, fresh, mixed, quantile
from .plan import Plan
from .probe import Probe

CONSUMERS = 8  # one of them is the probe, which writes down when it got each message
PRODUCERS = 4
RATE = 400.0  # messages per second
SHARE = 0.6  # of the peak, as the other rate


class Offers:
    """Producers that enqueue at a rate until the end of their block; `committed` says when each commit returned."""

    def __init__(self, run: Run, rate: float) -> None:
        self.committed: dict[int, float] = {}
        self._run = run
        self._rate = rate
        self._numbers = itertools.count()
        self._done = threading.Event()
        self._errors: list[Exception] = []
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(PRODUCERS)]

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise RuntimeError("a producer failed") from self._errors[0]

    def _work(self) -> None:
        try:
            with self._run.cluster.connect(self._run.database) as connection:
                self._produce(connection)
        except Exception as error:
            self._errors.append(error)

    def _produce(self, connection: psycopg.Connection) -> None:
        offer = self._run.design.script("offer").read_text()
        while not self._done.is_set():
            # Jitter: a consumer that asks at intervals must not be met at the same moment of each.
            due = self._began + (next(self._numbers) + random.random()) / self._rate
            if self._done.wait(max(0.0, due - time.perf_counter())):
                break
            channel = random.randint(1, self._run.channels)
            [message] = row_of(connection.execute(offer, {"channel": channel}, prepare=True))
            self.committed[message] = time.perf_counter()


def short_line(
    cluster: Cluster, design: Design, *, channels: int, seconds: float, rate: Callable[[], float]
) -> Figures:
    """µs of server CPU a message: enqueue, dequeue, completion, and all dequeues that found nothing.

    The waits are those of the messages that the probe got, from the return of the commit to the return of the dequeue:
    inf where it got none of those that were enqueued in the window, because the line grew.
    """
    offered = rate()
    with fresh(cluster, design, channels) as run:
        run.checkpoint()
        length = WARM_UP + seconds + 2
        run.tick(length)
        consuming = run.clients("consume", clients=CONSUMERS - 1, seconds=length, batch=1)
        with Probe(run, 1) as probe, Offers(run, offered) as offers:
            time.sleep(WARM_UP)
            first, began = run.sample(), time.perf_counter()
            time.sleep(seconds)
            last, ended = run.sample(), time.perf_counter()
        consuming.wait()
    within = {message: at for message, at in offers.committed.items() if began <= at < ended}
    waits = sorted(
        max(0.0, probe.taken[message] - at) * 1e3 for message, at in within.items() if message in probe.taken
    )
    done, taken = last.completed - first.completed, last.at - first.at
    each = costs(first, last, done, "message")
    return Figures(
        each.pop("server CPU µs per message"),
        remarks={
            "wait p50 ms": quantile(waits, 0.5, inf),
            "wait p99 ms": quantile(waits, 0.99, inf),
            "offered/s": offered,
            "completed/s": done / taken,
            "left behind": last.enqueued - last.completed,
            **cores(first, last),
            **each,
        },
    )


def contests(plan: Plan) -> list[Contest]:
    """At one rate for all, and at a share of what each manages at its best."""

    def contest(title: str, channels: int, rate: Callable[[Design], float]) -> Contest:
        return Contest(
            f"{title}, {CONSUMERS} consumers that ask each ms, {channels:,} channel{'s' if channels > 1 else ''}",
            "µs of server CPU a message",
            CHANNEL_ROW.name,
            {
                design.name: partial(
                    short_line,
                    plan.cluster,
                    design,
                    channels=channels,
                    seconds=plan.seconds,
                    rate=partial(rate, design),
                )
                for design in (PGQUEUE, CHANNEL_ROW)
            },
        )

    @cache
    def share_of_the_peak(design: Design) -> float:
        return SHARE * mixed(plan.cluster, design, channels=1_000, seconds=plan.seconds).value

    steady = f"{RATE:.0f} messages/s"
    return [
        contest(steady, 1, lambda design: RATE),
        contest(steady, 1_000, lambda design: RATE),
        contest(f"{SHARE:.0%} of its own peak", 1_000, share_of_the_peak),
    ]
