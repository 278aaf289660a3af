"""Workers in threads and in processes, and a look at what they did."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from django_pgqueue import NewMessage, channel_set, enqueue, enqueue_many, handlers
from django_pgqueue.maintenance.loop import MaintenanceLoop
from django_pgqueue.models import ArchivedMessage
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.ledger import Ledger
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.runtime import Runtime
from django_pgqueue.worker.shutdown import Alarm
from django_pgqueue.worker.worker import QueueWorker
from tests.support.faketime import faketime  # noqa: F401  (a fixture)
from tests.support.paths import REPOSITORY
from tests.support.sql import sql
from tests.support.tables import empty_tables
from tests.support.waiting import PATIENCE_SECONDS
from tests.worker.scripted import handlers as scripted

# One statement, hence one snapshot.
WHERE = """
SELECT 'live: ' || (ARRAY['ready', 'leased', 'scheduled'])[status] FROM pgqueue_message WHERE id = %s
UNION ALL SELECT outcome FROM pgqueue_archived_message WHERE id = %s
UNION ALL SELECT 'dead: ' || reason FROM pgqueue_dead_letter WHERE id = %s
"""


def empty() -> None:
    """Sessions of workers that were killed a moment ago may still be at work, and take their locks in another order."""
    for left in reversed(range(5)):
        try:
            empty_tables(None, "scripted_effect", "scripted_mark")
        except psycopg.errors.DeadlockDetected:
            if not left:
                raise
        else:
            return


@pytest.fixture
def queue(transactional_db: None) -> Iterator[None]:
    """Empty tables and the default channel; what the test does is committed."""
    sql(scripted.TABLES)
    empty()
    channel_set(channel="default")
    yield
    empty()


@pytest.fixture
def start(queue: None) -> Iterator[Callable[..., QueueWorker]]:
    """Workers in threads: `start(concurrency=2)`; stopped at the end, if the test has not."""
    running: list[tuple[QueueWorker, threading.Thread]] = []

    def start(*, maintenance: bool = False, **options: Any) -> QueueWorker:
        options = {"using": "default", "poll_interval": timedelta(seconds=0.1)} | options
        companion = (lambda wake: MaintenanceLoop("default", on_promoted=wake)) if maintenance else None
        worker = QueueWorker(WorkerOptions(**options), companion=companion)
        worker.clean = None
        thread = threading.Thread(target=lambda: setattr(worker, "clean", worker.run()))
        worker.join = lambda: ended(thread)
        running.append((worker, thread))
        thread.start()
        return worker

    yield start
    for worker, thread in running:
        if thread.is_alive():
            worker.stop()
        ended(thread)


def ended(thread: threading.Thread) -> None:
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "the worker does not end"


@pytest.fixture
def drain(start: Callable[..., QueueWorker]) -> Callable[..., dict[str, int]]:
    """Run a worker until nothing is ready; returns its totals, without zeros."""

    def drain(**options: Any) -> dict[str, int]:
        worker = start(drain=True, **options)
        worker.join()
        assert worker.clean
        return {event: count for event, count in worker.ledger.totals().items() if count}

    return drain


@pytest.fixture
def register() -> Iterator[Callable[..., None]]:
    """Handlers of this test: `register("name", function, timeout=…)`."""
    names: list[str] = []

    def register(name: str, function: Callable[..., Any], **policy: Any) -> None:
        handlers.handler(name, **policy)(function)
        names.append(name)

    yield register
    for name in names:
        handlers.unregister(name)


def under(processes: int) -> list[str]:
    # Watching files costs time that the tests need.
    return [f"--processes={processes}", *(["--no-reload"] if processes else [])]


class Process:
    """`manage.py runqueueworker` with the scripted handlers; all in one process, unless `processes` says otherwise."""

    def __init__(
        self, environment: dict[str, str], *arguments: str, processes: int = 0, terminal: int | None = None
    ) -> None:
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        # The present path comes after it: in the matrix, another Django than the installed one.
        path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject"), os.environ.get("PYTHONPATH", "")])
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "django", "runqueueworker", "--skip-checks", *under(processes), *arguments],
            env={**environment, "DJANGO_SETTINGS_MODULE": "tests.worker.settings", "PYTHONPATH": path},
            cwd=REPOSITORY,
            stdin=terminal,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=terminal is not None,
            preexec_fn=None if terminal is None else lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    @property
    def log(self) -> str:
        self.output.seek(0)
        return self.output.read()

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def wait(self, timeout: float = PATIENCE_SECONDS) -> int:
        return self.popen.wait(timeout)

    @property
    def started(self) -> list[int]:
        """The processes that it has started, by its log."""
        return [int(pid) for pid in re.findall(r"process (\d+) started", self.log)]

    @property
    def children(self) -> list[int]:
        """Those that run."""
        ended = {int(pid) for pid in re.findall(r"process (\d+) (?:ended|died)", self.log)}
        return [pid for pid in self.started if pid not in ended]

    def close(self) -> None:
        if self.popen.poll() is None:
            self.signal(signal.SIGKILL)
            self.wait()
        # Where a test has killed the supervisor: they would go on for most of a lease.
        for child in self.children:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        print(self.log[-5000:])
        self.output.close()


@pytest.fixture
def spawn(queue: None, environment: dict[str, str]) -> Iterator[Callable[..., Process]]:
    """Workers in processes of their own: `spawn("--lease", "1", DATABASE_URL=…)`; killed at the end."""
    started: list[Process] = []

    def spawn(*arguments: str, processes: int = 0, **variables: str) -> Process:
        started.append(Process({**environment, **variables}, *arguments, processes=processes))
        return started[-1]

    yield spawn
    for process in started:
        process.close()


@pytest.fixture
def port() -> int:
    """A free port for probes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def script(*steps: list[Any], handler: str = "scripted", **fields: Any) -> int:
    """Enqueue a message that says what its handler shall do. Returns its id."""
    fields = {"backoff": timedelta(microseconds=1)} | fields
    return enqueue(handler, list(steps), **fields).id


def scripts(count: int, *steps: list[Any], handler: str = "scripted", **fields: Any) -> list[int]:
    fields = {"backoff": timedelta(microseconds=1)} | fields
    return [
        new.id for new in enqueue_many(NewMessage(handler=handler, payload=list(steps), **fields) for _ in range(count))
    ]


def effects() -> list[tuple[int, int]]:
    """Message and attempt of each effect that is committed."""
    return sql("SELECT message_id, attempt FROM scripted_effect ORDER BY at")


def mark(name: str) -> None:
    sql("INSERT INTO scripted_mark (name) VALUES (%s)", name)


def marks(name: str) -> int:
    return sql("SELECT count(*) FROM scripted_mark WHERE name = %s", name)[0][0]


def where(message: int) -> str:
    """The one place where the message is."""
    places = [row[0] for row in sql(WHERE, message, message, message)]
    assert len(places) == 1, places
    return places[0]


def result(message: int) -> Any:
    """Return the result of a completed message."""
    return ArchivedMessage.objects.get(id=message).result


def make_runtime(options: WorkerOptions, **functions: Any) -> Runtime:
    """What the roles of a worker share, of which each test uses a part."""
    nothing = dict.fromkeys(["put", "expect", "recycle", "crashed"], lambda *arguments: None)
    ledger = Ledger(options.using, options.name)
    return Runtime(options=options, board=Board(), ledger=ledger, alarm=Alarm(), **(nothing | functions))
