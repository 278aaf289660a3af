"""The child's side of the link: does what the supervisor says, and reports to it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from django_pgqueue.worker.link.pipe import Link
from django_pgqueue.worker.operate.registration import WorkerDescription
from django_pgqueue.worker.role import Crashed, Role

INTERVAL = 1.0
# The part of a lease after which this process ends without a supervisor, which alone extends leases.
LAST_PART = 0.8


class SupervisorInbox:
    """Calls what ``on`` has for each frame. ``on_gone``: the supervisor does not exist any more."""

    def __init__(
        self,
        link: Link,
        *,
        on: Mapping[str, Callable[..., None]],
        on_gone: Callable[[], None],
        crashed: Crashed,
    ) -> None:
        self._link = link
        self._on = on
        self._on_gone = on_gone
        self._thread = Role("inbox", self._run, crashed=crashed)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """It hears until the process ends."""

    def _run(self) -> None:
        while (frame := self._link.receive()) is not None:
            what, *rest = frame
            self._on[what](*rest)
        self._on_gone()


class Reports:
    """Report to the supervisor every second. That a report comes at all says that this process is not stuck.

    ``describe``: what the supervisor shall know. ``trouble``: what the database says, if it fails; else empty.
    """

    def __init__(
        self, link: Link, *, describe: Callable[[], WorkerDescription], trouble: Callable[[], str], crashed: Crashed
    ) -> None:
        self._link = link
        self._describe = describe
        self._trouble = trouble
        self._stopped = threading.Event()
        self._thread = Role("reports", self._run, crashed=crashed)

    def start(self) -> None:
        self._link.send("ready")
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            self._link.send("report", self._describe(), self._trouble())
            if self._stopped.wait(INTERVAL):
                break
        self._link.send("report", self._describe(), self._trouble())


def end_within(lease: timedelta) -> None:
    """End the process after the supervisor has died; handlers may end first, as far as the leases allow.

    Does not come back: the thread that hears the supervisor has nothing else to do, and another may not start.
    """
    time.sleep(lease.total_seconds() * LAST_PART)
    os._exit(1)
