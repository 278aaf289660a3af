"""Keep the workers' rows in the database up to date, and remove them after a clean exit."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django_pgqueue import __version__
from django_pgqueue.models import Worker
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.worker.board import Begun
from django_pgqueue.worker.database import Outage, dedicate_connection
from django_pgqueue.worker.numbers import MOST_RUNNING_MESSAGES, REFRESH_SECONDS
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.role import Crashed, Role
from django_pgqueue.worker.served import ServedQueues

ROLE = "registration"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDescription:
    """Hold the columns of a worker's row that change.

    ``state``: starting, running or stopping. ``supervisor``: its name, or an empty text. ``running``: the answer of
    :func:`running_as_json`. ``totals``: numbers of messages by event. ``memory_bytes``, ``handlers``: None if they are
    not known; ``handlers`` has the names of those that the process has loaded.
    """

    name: str
    pid: int
    state: str
    supervisor: str = ""
    running: list[dict[str, Any]]
    totals: dict[str, int]
    memory_bytes: int | None
    handlers: list[str] | None


def running_as_json(running: Iterable[Begun]) -> list[dict[str, Any]]:
    """Return the running messages as dicts for JSON, the longest running first.

    ``seconds``: the time since its handler began. ``seconds_left``: the time until its deadline; None without one.
    """
    now = time.monotonic()
    return [
        {
            "id": entry.id,
            "seconds": round(now - entry.started_at, 1),
            "seconds_left": None if entry.deadline == math.inf else round(entry.deadline - now, 1),
        }
        for entry in sorted(running, key=lambda entry: entry.started_at)[:MOST_RUNNING_MESSAGES]
    ]


class Registration:
    """Write the rows of a process's workers to pgqueue_worker in a thread of its own: of a supervisor's children, or
    of a worker without a supervisor.

    ``describe``: returns the workers of this process. ``on_paused``: called after each refresh with the names of those
    that are paused in the database. ``written_at``: when the last refresh succeeded (time.monotonic()).
    """

    def __init__(
        self,
        options: WorkerOptions,
        *,
        served: ServedQueues,
        describe: Callable[[], list[WorkerDescription]],
        on_paused: Callable[[set[str]], None],
        outage: Outage,
        crashed: Crashed,
    ) -> None:
        self._options = options
        self._served = served
        self._describe = describe
        self._on_paused = on_paused
        self._outage = outage
        self._names: set[str] = set()
        self._stopped = False
        self._wake = threading.Event()
        self._thread = Role(ROLE, self._run, crashed=crashed)
        self.written_at = -math.inf

    def run_once(self) -> None:
        """Refresh the rows, delete those of workers that have gone, and read which are paused.

        Raises the database's error.
        """
        rows = Worker.objects.using(self._options.using)
        self._served.refresh()
        described = self._describe()
        for description in described:
            self._write(description)
        names = {description.name for description in described}
        if gone := self._names - names:
            rows.filter(name__in=gone).delete()
        self._names = names
        self._on_paused(set(rows.filter(name__in=names, paused_at__isnull=False).values_list("name", flat=True)))
        self.written_at = time.monotonic()

    def _write(self, description: WorkerDescription) -> None:
        rows = Worker.objects.using(self._options.using)
        fields = asdict(description) | {"queues": list(self._served.names)}
        if rows.filter(name=fields.pop("name")).update(heartbeat_at=ClockTimestamp(), **fields):
            return
        # The worker is new, or its row was removed.
        rows.create(
            name=description.name,
            hostname=socket.gethostname()[:200],
            concurrency=self._options.concurrency,
            version=__version__,
            **fields,
        )

    def wake(self) -> None:
        """Refresh the rows now, because a worker has started or ended; from any thread."""
        self._wake.set()

    def start(self) -> None:
        """Start the thread, which writes the rows at once."""
        self._thread.start()

    def stop(self) -> None:
        """Delete the rows and end the thread; wait for that for up to 5 s."""
        self._stopped = True
        self._wake.set()
        self._thread.join(5)

    def _run(self) -> None:
        dedicate_connection(self._options.using)
        while not self._stopped:
            self._outage.retry_until_success(ROLE, self.run_once, sleep=self._sleep)
            self._sleep(REFRESH_SECONDS)
        self._outage.retry_until_success(ROLE, self._remove, sleep=lambda seconds: True)

    def _sleep(self, seconds: float) -> bool:
        self._wake.wait(seconds)
        # After the wait, and before the caller looks at the flag: cleared elsewhere, a call of stop() could be missed.
        self._wake.clear()
        return self._stopped

    def _remove(self) -> None:
        Worker.objects.using(self._options.using).filter(name__in=self._names).delete()
