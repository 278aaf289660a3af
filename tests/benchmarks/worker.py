"""End to end: one `runqueueworker` process drains a backlog."""

from __future__ import annotations

import subprocess

from .cluster import Cluster
from .design import PGQUEUE, manage
from .measure import Figures, fresh, watch

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


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        process.communicate()
