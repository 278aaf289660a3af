"""The company of a load: nothing, transactions that stay open, programs that read it all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from django_pgqueue.embedded import find_binaries
from tests.support.paths import REPOSITORY

from .measure import Run

LOOK_EVERY = 0.1  # seconds
REQUESTS = 20
REQUEST_SECONDS = 30.0
ENQUEUE = "SELECT id FROM pgqueue_enqueue('benchmark.noop', '{}', 'c' || %s)"


@contextmanager
def nothing(run: Run) -> Iterator[dict[str, float]]:
    yield {}


@contextmanager
def snapshot(run: Run) -> Iterator[dict[str, float]]:
    """A transaction that stays open, as that of a long report does."""
    with run.cluster.connect(run.database) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield {}
        connection.execute("ROLLBACK")


@contextmanager
def requests(run: Run) -> Iterator[dict[str, float]]:
    """Run web requests as under ATOMIC_REQUESTS: each enqueues a message first, and commits it 30 s later.

    They begin one after the other, so that in each moment some have just begun, and others are about to commit.
    """
    remarks: dict[str, float] = {}
    done = threading.Event()

    def work(number: int) -> int:
        committed = 0
        with run.cluster.connect(run.database) as connection:
            done.wait(number * REQUEST_SECONDS / REQUESTS)
            while not done.is_set():
                with connection.transaction():
                    connection.execute(ENQUEUE, [number % run.channels + 1])
                    done.wait(REQUEST_SECONDS)
                committed += 1
        return committed

    with ThreadPoolExecutor(REQUESTS) as pool:
        sessions = [pool.submit(work, number) for number in range(REQUESTS)]
        try:
            yield remarks
        finally:
            done.set()
    remarks["requests committed"] = sum(session.result() for session in sessions)


@contextmanager
def dump(run: Run) -> Iterator[dict[str, float]]:
    command = [str(find_binaries().program("pg_dump")), "--format=custom", run.cluster.url(run.database)]
    with again_and_again(command) as remarks:
        yield remarks


@contextmanager
def export(run: Run) -> Iterator[dict[str, float]]:
    """Into one lake: the first brings all of the archive, the others what is new."""
    source = run.cluster.url(run.database)
    with tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-", ignore_cleanup_errors=True) as lake:
        command = [sys.executable, "-m", "django_pgqueue.spark", "export", "--lake", lake, "--master", "local[1,4]"]
        with again_and_again(command, PGQUEUE_SOURCE=source) as remarks:
            yield remarks


@contextmanager
def again_and_again(command: list[str], **variables: str) -> Iterator[dict[str, float]]:
    """Runs the command until the end of the block, over and over; a run that has not finished then is ended.

    Its program would be on another machine: with the lowest priority it leaves ours to the server, whose part of the
    work has the usual one.
    """
    remarks = {"runs finished": 0.0}
    done = threading.Event()
    failures: list[str] = []

    def work() -> None:
        while not done.is_set() and not failures:
            with tempfile.TemporaryFile("w+") as log:
                process = subprocess.Popen(
                    ["nice", "-n", "19", *command],
                    env={**os.environ, **variables},
                    cwd=REPOSITORY,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
                while process.poll() is None and not done.wait(LOOK_EVERY):
                    pass
                if process.poll() is None:
                    process.terminate()
                    process.wait()
                elif process.returncode:
                    log.seek(0)
                    failures.append(log.read()[-3000:])
                else:
                    remarks["runs finished"] += 1

    thread = threading.Thread(target=work, name=f"{command[0]} again and again", daemon=True)
    thread.start()
    try:
        yield remarks
    finally:
        done.set()
        thread.join()
    if failures:
        raise RuntimeError(f"{command[0]} failed:\n{failures[0]}")
