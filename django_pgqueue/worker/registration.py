"""Keep the workers' rows in the database up to date, and remove them after a clean exit."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction

from django_pgqueue import __version__
from django_pgqueue.models import Worker
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.worker import numbers
from django_pgqueue.worker.board import Begun
from django_pgqueue.worker.database import dedicate_connection
from django_pgqueue.worker.looks import ServedQueues
from django_pgqueue.worker.runtime import Role, Shared

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
        for entry in sorted(running, key=lambda entry: entry.started_at)[: numbers.MOST_RUNNING_MESSAGES]
    ]


class Registration(Role):
    """Write the rows of a process's workers to pgqueue_worker in a thread of its own: of a supervisor's children, or
    of a worker without a supervisor.

    ``describe``: returns the workers of this process. ``on_paused``: called after each refresh with the names of those
    that are paused in the database. ``written_at``: when the last refresh succeeded (time.monotonic()).
    """

    def __init__(
        self,
        shared: Shared,
        *,
        served: ServedQueues,
        describe: Callable[[], list[WorkerDescription]],
        on_paused: Callable[[set[str]], None],
    ) -> None:
        super().__init__(ROLE, self._run, crashed=shared.crashed)
        self._options = shared.options
        self._outage = shared.outage
        self._served = served
        self._describe = describe
        self._on_paused = on_paused
        # What was last written of each worker that has a row, and when (time.monotonic()).
        self._written: dict[str, tuple[dict[str, Any], float]] = {}
        self._stopped = False
        self._wake = threading.Event()
        self.written_at = -math.inf

    def run_once(self) -> None:
        """Write the rows that have changed or are old, delete those of workers that have gone, and read which are
        paused.

        Raises the database's error.
        """
        rows = Worker.objects.using(self._options.using)
        self._served.refresh()
        queues = list(self._served.names)
        described = {row.name: asdict(row) | {"queues": queues} for row in self._describe()}
        now, changed = time.monotonic(), {}
        longest = min(numbers.UNCHANGED_SECONDS, self._options.lease.total_seconds() / 3)
        for name, fields in described.items():
            before, at = self._written.get(name, ({}, -math.inf))
            if now - at >= longest or fields != before | {"memory_bytes": fields["memory_bytes"]}:
                changed[name] = fields, now
        with transaction.atomic(using=rows.db):
            for name, (fields, _) in changed.items():
                if not rows.filter(name=name).update(heartbeat_at=ClockTimestamp(), **fields):
                    # The worker is new, or its row was removed.
                    host, concurrency = socket.gethostname()[:200], self._options.concurrency
                    rows.create(hostname=host, concurrency=concurrency, version=__version__, **fields)
            if gone := self._written.keys() - described.keys():
                rows.filter(name__in=gone).delete()
        there = dict(rows.filter(name__in=described).values_list("name", "paused_at"))
        # One that is not there was removed, and is written again by the next refresh.
        self._written = {name: row for name, row in (self._written | changed).items() if name in there}
        self._on_paused({name for name, paused_at in there.items() if paused_at is not None})
        self.written_at = time.monotonic()

    def wake(self) -> None:
        """Refresh the rows now, because a worker has started or ended; from any thread."""
        self._wake.set()

    def stop(self) -> None:
        """Delete the rows and end the thread; wait for that for up to 5 s."""
        self._stopped = True
        self._wake.set()
        self.join(5)

    def _run(self) -> None:
        dedicate_connection(self._options.using)
        while not self._stopped:
            self._outage.retry_until_success(ROLE, self.run_once, sleep=self._sleep)
            self._sleep(numbers.REFRESH_SECONDS)
        self._outage.retry_until_success(ROLE, self._remove, sleep=lambda seconds: True)

    def _sleep(self, seconds: float) -> bool:
        self._wake.wait(seconds)
        # After the wait, and before the caller looks at the flag: cleared elsewhere, a call of stop() could be missed.
        self._wake.clear()
        return self._stopped

    def _remove(self) -> None:
        Worker.objects.using(self._options.using).filter(name__in=self._written).delete()
