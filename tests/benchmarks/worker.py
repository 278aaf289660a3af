"""End to end: one `runqueueworker` process drains a backlog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen

from .cluster import Cluster
from .design import PGQUEUE, manage
from .measure import Figures, Run, fresh, watch

CHANNELS = 16
CONCURRENCY = 4
BATCH = 50
PATIENCE = 120.0  # seconds


def drain_by_worker(cluster: Cluster, *, messages: int, handler: str) -> Figures:
    with fresh(cluster, PGQUEUE, CHANNELS) as run:
        run.fill(messages)
        run.connection.execute("UPDATE pgqueue_message SET handler = %s", [handler])
        run.connection.execute("VACUUM (ANALYZE)")
        run.checkpoint()
        options = ["--drain", "--concurrency", str(CONCURRENCY), "--batch", str(BATCH), "--verbosity", "0"]
        process = manage(cluster, run.database, "runqueueworker", *options)
        run.stack.callback(_end, process)
        figures = watch(run, messages, PATIENCE)
        _, errors = process.communicate(timeout=PATIENCE)
        if process.returncode:
            raise RuntimeError(f"runqueueworker failed:\n{errors[-3000:]}")
        return figures


@contextmanager
def worker(run: Run, *options: str, **variables: str) -> Iterator[None]:
    """A `runqueueworker` on the run's database, as long as it is measured."""
    process = manage(run.cluster, run.database, "runqueueworker", "--verbosity", "0", *options, **variables)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"runqueueworker failed:\n{process.communicate()[1][-3000:]}")
    finally:
        _end(process)


def _end(process: Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        process.communicate()
