"""End to end: one `runqueueworker` process drains a backlog."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from subprocess import Popen
from typing import Any

from .cluster import Cluster
from .design import PGQUEUE, manage
from .machine import family_seconds
from .measure import Figures, Run, fresh, watch

CHANNELS = 16
USUAL = ("--concurrency", "4", "--batch", "50")
PATIENCE_SECONDS = 120.0  # seconds
LOOK_EVERY = 0.02  # seconds
CLIENT = "worker's CPU µs per message"


def drain_by_worker(
    cluster: Cluster, *, messages: int, handler: str, options: tuple[str, ...] = USUAL, limits: str | None = None
) -> Figures:
    with fresh(cluster, PGQUEUE, CHANNELS) as run:
        if limits:
            run.script(limits)
        run.fill(messages)
        run.connection.execute("UPDATE pgqueue_message SET handler = %s", [handler])
        run.connection.execute("VACUUM (ANALYZE)")
        run.checkpoint()
        with worker(run, *options) as process:
            while not (completed := run.sample().completed):
                time.sleep(LOOK_EVERY)
            before = family_seconds(process.pid)
            figures = watch(run, messages, PATIENCE_SECONDS)
            spent = (family_seconds(process.pid) - before) / (messages - completed) * 1e6
        return replace(figures, remarks={CLIENT: spent, **figures.remarks})


@contextmanager
def worker(run: Run, *options: str, **variables: Any) -> Iterator[Popen[str]]:
    """A `runqueueworker` on the run's database, as long as it is measured."""
    process = manage(run.cluster, run.database, "runqueueworker", "--verbosity", "0", *options, **variables)
    try:
        yield process
        if process.poll() is not None:
            raise RuntimeError(f"runqueueworker failed:\n{process.communicate()[1][-3000:]}")
    finally:
        _end(process)


def _end(process: Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        process.communicate()
