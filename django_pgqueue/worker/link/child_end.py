"""Read the supervisor's frames in a child, and report to the supervisor."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.link.pipe import Link
from django_pgqueue.worker.operate.registration import WorkerDescription
from django_pgqueue.worker.role import Crashed, Role

REPORT_SECONDS = 1.0
# After this part of a lease a child without a supervisor exits, because only the supervisor extends leases.
ORPHAN_LEASE_SHARE = 0.8


class SupervisorInbox:
    """Read the frames of the supervisor in a thread of its own, and call a function for each.

    ``on``: the functions by the first word of the frame; each gets the rest of it. ``on_gone``: called when the
    supervisor has ended. ``crashed``: called with the error if the thread ends by one.
    """

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
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Do nothing: the thread reads until the process ends."""

    def _run(self) -> None:
        while (frame := self._link.receive()) is not None:
            what, *rest = frame
            self._on[what](*rest)
        self._on_gone()


class Reports:
    """Send a report to the supervisor every REPORT_SECONDS; a child without reports counts as silent.

    ``describe``: returns the columns of the child's row. ``outage``: has the database's error while it fails.
    """

    def __init__(
        self,
        link: Link,
        *,
        describe: Callable[[], WorkerDescription],
        outage: Outage,
        crashed: Crashed,
    ) -> None:
        self._link = link
        self._describe = describe
        self._outage = outage
        self._stopped = threading.Event()
        self._thread = Role("reports", self._run, crashed=crashed)

    def start(self) -> None:
        """Send the first report and that the child is ready, and start the thread."""
        # In this order: the first row of a child that is ready has its handlers.
        self._report()
        self._link.send("ready")
        self._thread.start()

    def stop(self) -> None:
        """Send a last report and end the thread; wait for that for up to 5 s."""
        self._stopped.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopped.wait(REPORT_SECONDS):
            self._report()
        self._report()

    def _report(self) -> None:
        self._link.send("report", self._describe(), self._outage.problem, self._outage.misfit)


def end_within(lease: timedelta) -> None:
    """Wait for ORPHAN_LEASE_SHARE of ``lease``, so that handlers can end, and then exit with status 1.

    A child whose supervisor has died calls it. It does not return: the thread of the inbox has nothing else to do.
    """
    time.sleep(lease.total_seconds() * ORPHAN_LEASE_SHARE)
    os._exit(1)
