"""The queues that a worker serves: those that it was given, or all that there are at the moment."""

from __future__ import annotations

import math
import time

from django_pgqueue.lifecycle.queue_names import queue_names
from django_pgqueue.worker.options import ALL, WorkerOptions


class ServedQueues:
    """``names`` follows the database when the worker was given ``*``; any thread may read it."""

    def __init__(self, options: WorkerOptions) -> None:
        self._using = options.using
        self._excluded = frozenset(options.excluded)
        self._all = ALL in options.queues
        # A worker looks once in a poll interval at the latest: a new queue is found by the look after that.
        self._interval = options.poll_interval.total_seconds() / 2
        self._refresh_at = -math.inf
        self.names = () if self._all else tuple(name for name in options.queues if name not in self._excluded)

    def refresh(self) -> None:
        """Look which queues there are, if that may have changed. Raises the database's error."""
        if self._all and time.monotonic() >= self._refresh_at:
            self.names = tuple(name for name in queue_names(using=self._using) if name not in self._excluded)
            self._refresh_at = time.monotonic() + self._interval

    def serves(self, name: str) -> bool:
        """Return whether a notification for this queue concerns the worker; a new queue may not be in ``names`` yet."""
        return name not in self._excluded if self._all else name in self.names
