"""Interrupt handlers that run past their deadline, and give up those that do not end.

There are three stages. At its deadline the handler is interrupted. If it has not ended after the grace, its message is
settled without it, and the worker asks to be replaced. If the process cannot even do that, its supervisor kills it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Protocol

from django_pgqueue.worker.role import Crashed, Role

NEVER = float("inf")
DEADLINE_LOOK_SECONDS = 1.0


class Run(Protocol):
    """Describe one call of a handler.

    ``deadline``: time.monotonic() at which it is interrupted. ``interrupted``: whether it was.
    """

    deadline: float
    interrupted: bool

    def interrupt(self) -> None:
        """Raise HandlerTimeout in the handler, or cancel its task if it is async. Does nothing if it has just ended."""

    def give_up(self) -> None:
        """Settle the messages without the handler. Does nothing if it has just ended."""


class Deadlines:
    """Watch the deadlines of all calls of a worker in a thread of its own.

    ``runs``: returns the calls that run now. ``grace``: the time between the interruption and giving up. ``crashed``:
    called with the error if the thread ends by one.
    """

    def __init__(self, runs: Callable[[], Iterable[Run]], *, grace: timedelta, crashed: Crashed) -> None:
        self._runs = runs
        self._grace = grace.total_seconds()
        self._next_look = NEVER
        self._wake = threading.Event()
        self._stopped = False
        self._thread = Role("deadlines", self._run, crashed=crashed)

    def expect(self, deadline: float) -> None:
        """Make sure that the next look is at ``deadline`` (time.monotonic()) at the latest; from any thread."""
        if deadline < self._next_look:
            self._wake.set()

    def run_once(self) -> float:
        """Interrupt or give up the calls that are overdue. Returns the time of the next look (time.monotonic())."""
        now = time.monotonic()
        following = now + DEADLINE_LOOK_SECONDS
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
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it for up to 5 s."""
        self._stopped = True
        self._wake.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopped:
            self._next_look = time.monotonic()
            self._next_look = self.run_once()
            # A call that starts during the look and has a near deadline sets the event, so the wait ends at once.
            self._wake.wait(max(0.0, self._next_look - time.monotonic()))
            # The event is cleared after the wait: before the look, a call of stop() could be missed.
            self._wake.clear()
