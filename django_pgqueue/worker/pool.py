"""Keep one place for a worker process filled, from the start of each to its end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from django_pgqueue.worker import numbers
from django_pgqueue.worker.process import Child


class ProcessSlot:
    """Hold the child of one place, and its successor while it is replaced.

    ``holder``: the child that works. ``successor``: a new child that is starting; the holder works on until it is
    ready, so a start that fails, because new code does not load, stops nothing. ``spawn``: starts a child, or returns
    None. ``stop``: asks a child to end, with the reason. ``finished``: with --once and --drain, its work is done.
    """

    def __init__(self, *, spawn: Callable[[], Child | None], stop: Callable[[Child, str], None]) -> None:
        self.holder: Child | None = None
        self.successor: Child | None = None
        self.finished = False
        self._spawn = spawn
        self._stop = stop
        # Early deaths in a row, those of them that began no message, and when the next start is due.
        self.failures = self.failed_starts = 0
        self._start_at = 0.0

    @property
    def ready(self) -> bool:
        """Return whether the holder is ready."""
        return self.holder is not None and self.holder.ready

    @property
    def changing(self) -> bool:
        """Return whether the holder is to be replaced."""
        return self.successor is not None or (self.holder is not None and bool(self.holder.recycle_reason))

    def has(self, child: Child) -> bool:
        """Return whether the child is the holder or the successor."""
        return child is self.holder or child is self.successor

    def fill(self, *, may_replace: bool) -> None:
        """Start the holder if it is missing and due, or its successor, or let a ready successor take over.

        ``may_replace``: no other slot is replacing its holder.
        """
        if self.finished:
            return
        due = time.monotonic() >= self._start_at
        if self.holder is None:
            self.holder, self.successor = self.successor, None
        if self.holder is None:
            if due:
                self.holder = self._start()
        elif self.successor is not None:
            if self.successor.ready:
                self._stop(self.holder, self.holder.recycle_reason)
                self.holder, self.successor = self.successor, None
        elif self.holder.recycle_reason and due and may_replace:
            self.successor = self._start()

    def vacate(self, child: Child, *, worked: bool = False) -> float:
        """Record that the child has ended, for any reason. Returns the seconds until the next one may start.

        ``worked``: it had begun messages, so that one of them may be the cause, and not its start.
        """
        if child is self.holder:
            self.holder = None
        else:
            self.successor = None
        return self._delay(time.monotonic() - child.started_at, was_ready=child.ready, worked=worked)

    def replace(self, reason: str) -> None:
        """Have the holder replaced after a change, and forget failed starts, which may succeed now."""
        self.failures = self.failed_starts = 0
        self._start_at = 0.0
        if self.successor is not None:
            # The successor may have loaded the code before the change. If it is ready, it may run messages already.
            self._stop(self.successor, reason)
            if not self.successor.ready:
                self.successor.kill_now()
            self.successor = None
        if self.holder is not None:
            self.holder.recycle_reason = reason

    def _start(self) -> Child | None:
        child = self._spawn()
        if child is None:
            self._delay(0.0, was_ready=False, worked=False)
        return child

    def _delay(self, ran_seconds: float, *, was_ready: bool, worked: bool) -> float:
        """Record that a child has ended after ``ran_seconds``, and return the seconds until the next start.

        The first death of a child that was ready has no delay; then the delay doubles, with jitter: processes that die
        of one cause do not all start again at the same moment.
        """
        well = was_ready and ran_seconds > numbers.WELL_SECONDS
        self.failures = 1 if well else self.failures + 1
        self.failed_starts = 0 if well or worked else self.failed_starts + 1
        longest = numbers.LONGEST_WORK_DELAY_SECONDS if was_ready else numbers.LONGEST_START_DELAY_SECONDS
        delay = min(longest, numbers.FIRST_DELAY_SECONDS * float(2 ** min(self.failures - 1, 10))) * random.uniform(
            0.8, 1.0
        )
        if was_ready and self.failures == 1:
            delay = 0.0
        self._start_at = time.monotonic() + delay
        return delay
