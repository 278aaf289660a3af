"""Enqueue in the middle of other work: many times in one transaction, among inserts of its own."""

from __future__ import annotations

import time
from statistics import fmean

from .cluster import Cluster
from .design import PGQUEUE
from .measure import Figures, costs, fresh

PARTS = 5  # of a transaction
BUSINESS = "CREATE TABLE business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text NOT NULL)"
INSERT = "INSERT INTO business (note) VALUES ('an order of four things, to be sent on Monday')"


def in_transaction(cluster: Cluster, script: str, *, enqueues: int, seconds: float) -> Figures:
    """Microseconds of one enqueue, as a Python client sees it, the commit not counted. The series has the parts of
    the transaction: what grows with its length shows."""
    with fresh(cluster, PGQUEUE, channels=1) as run, cluster.connect(run.database) as client:
        run.script("plain_table")
        run.connection.execute(BUSINESS)
        run.checkpoint()
        enqueue = PGQUEUE.script(script).read_text()
        took: list[list[float]] = [[] for _ in range(PARTS)]
        commits: list[float] = []
        before, deadline = run.sample(), time.monotonic() + seconds
        while not commits or time.monotonic() < deadline:
            client.execute("BEGIN")
            for number in range(enqueues):
                client.execute(INSERT, prepare=True)
                began = time.perf_counter()
                client.execute(enqueue, prepare=True)
                took[number * PARTS // enqueues].append((time.perf_counter() - began) * 1e6)
            began = time.perf_counter()
            client.execute("COMMIT")
            commits.append((time.perf_counter() - began) * 1e3)
        count = enqueues * len(commits)
        return Figures(
            sum(map(sum, took)) / count,
            series={"µs in each fifth": tuple(map(fmean, took))},
            remarks={"commit, ms": fmean(commits), **costs(before, run.sample(), count, "enqueue and insert")},
        )
