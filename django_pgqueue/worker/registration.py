"""The worker's row: who runs where. Refreshed every few seconds; gone after a clean exit."""

from __future__ import annotations

import os
import socket
import threading

from django.db import connections

from django_pgqueue import __version__
from django_pgqueue.models import Worker
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.worker.database import Outage, dedicate
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.role import Crashed, Role

ROLE = "registration"
INTERVAL = 5.0


class Registration:
    def __init__(self, options: WorkerOptions, *, outage: Outage, crashed: Crashed) -> None:
        self._options = options
        self._outage = outage
        self._stopped = threading.Event()
        self._thread = Role(ROLE, self._run, crashed=crashed)

    def run_once(self) -> bool:
        """Refresh the row; write it again if somebody removed it. Returns whether it was there."""
        rows = Worker.objects.using(self._options.using)
        if rows.filter(name=self._options.name).update(heartbeat_at=ClockTimestamp()):
            return True
        rows.create(
            name=self._options.name,
            hostname=socket.gethostname()[:200],
            pid=os.getpid(),
            queues=list(self._options.queues),
            concurrency=self._options.concurrency,
            version=__version__,
        )
        return False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(5)

    def _run(self) -> None:
        dedicate(self._options.using)
        while True:
            self._outage.patiently(ROLE, self.run_once, sleep=self._stopped.wait)
            # It is used so seldom that it would be found dead.
            connections[self._options.using].close()
            if self._stopped.wait(INTERVAL):
                break
        self._outage.patiently(ROLE, self._remove, sleep=lambda seconds: True)

    def _remove(self) -> None:
        Worker.objects.using(self._options.using).filter(name=self._options.name).delete()
