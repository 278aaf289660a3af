"""Interrupt handlers that run past their deadline, and give up those that do not end.

Three stages, each for what the one before cannot end: at the deadline the handler is interrupted; some seconds later
its message is settled without it, and the worker asks to be replaced; later still, the parent process kills the worker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Protocol

from django_pgqueue.worker.role import Crashed, Role

NEVER = float("inf")
LOOK_EVERY = 1.0


class Run(Protocol):
    """One call of a handler. Moments are those of time.monotonic()."""

    deadline: float
    interrupted: bool

    def interrupt(self) -> None:
        """Make the handler raise. Does nothing if it has just ended."""

    def give_up(self) -> None:
        """Settle its messages without it, whatever it does later. Does nothing if it has just ended."""


class Deadlines:
    """Watches deadlines. ``runs``: the calls that run now. ``grace``: time between interruption and giving up."""

    def __init__(self, runs: Callable[[], Iterable[Run]], *, grace: timedelta, crashed: Crashed) -> None:
        self._runs = runs
        self._grace = grace.total_seconds()
        self._next_look = NEVER
        self._wake = threading.Event()
        self._stopped = False
        self._thread = Role("deadlines", self._run, crashed=crashed)

    def expect(self, deadline: float) -> None:
        """Look at ``deadline`` (time.monotonic()) at the latest: a handler may run until then."""
        if deadline < self._next_look:
            self._wake.set()

    def run_once(self) -> float:
        """Interrupt or give up overdue calls. Returns when to look again (time.monotonic())."""
        now = time.monotonic()
        following = now + LOOK_EVERY
        for run in self._runs():
            if run.deadline + self._grace <= now:
                run.give_up()
            elif run.deadline <= now:
                if not run.interrupted:
                    run.interrupt()
                following = min(following, run.deadline + self._grace)
            else:
                following = min(following, run.deadline)
        return following

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopped:
            self._next_look = time.monotonic()
            self._next_look = self.run_once()
            # A run that starts during the look sets the event, if its deadline is near, and the wait ends at once.
            self._wake.wait(max(0.0, self._next_look - time.monotonic()))
            # Here, not before the look: between the loop's condition and a clear, a call of stop() could be missed.
            self._wake.clear()
