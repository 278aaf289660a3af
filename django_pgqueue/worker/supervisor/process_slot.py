"""Replace one child by the next in one of the N places of the pool."""

from __future__ import annotations

import time
from collections.abc import Callable

from django_pgqueue.worker.supervisor.process import Child
from django_pgqueue.worker.supervisor.restarts import Restarts


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
        self._restarts = Restarts()
        self._start_at = 0.0

    @property
    def ready(self) -> bool:
        """Return whether the holder is ready."""
        return self.holder is not None and self.holder.ready

    @property
    def changing(self) -> bool:
        """Return whether the holder is to be replaced."""
        return self.successor is not None or (self.holder is not None and bool(self.holder.recycle_reason))

    @property
    def failures(self) -> int:
        """Return the number of early deaths in a row."""
        return self._restarts.failures

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

    def vacate(self, child: Child) -> float:
        """Record that the child has ended, for any reason. Returns the seconds until the next one may start."""
        if child is self.holder:
            self.holder = None
        else:
            self.successor = None
        return self._delay(ran_seconds=time.monotonic() - child.started_at, was_ready=child.ready)

    def replace(self, reason: str) -> None:
        """Have the holder replaced after a change, and forget failed starts, which may succeed now."""
        self._restarts.forget()
        self._start_at = 0.0
        if self.successor is not None:
            # The successor may have loaded the code before the change. It holds no messages yet.
            self._stop(self.successor, reason)
            self.successor.kill_now()
            self.successor = None
        if self.holder is not None:
            self.holder.recycle_reason = reason

    def _start(self) -> Child | None:
        child = self._spawn()
        if child is None:
            self._delay(ran_seconds=0.0, was_ready=False)
        return child

    def _delay(self, *, ran_seconds: float, was_ready: bool) -> float:
        delay = self._restarts.delay(ran_seconds=ran_seconds, was_ready=was_ready)
        self._start_at = time.monotonic() + delay
        return delay
