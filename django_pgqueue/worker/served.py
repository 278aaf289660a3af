"""Hold the queues that a worker serves: those of its options, or all that exist at the moment."""

from __future__ import annotations

import math
import time

from django_pgqueue.lifecycle.queues import queue_names
from django_pgqueue.models import Queue
from django_pgqueue.sql.call import call
from django_pgqueue.worker.options import ALL, WorkerOptions

GUARDED = "SELECT DISTINCT h.handler FROM pgqueue_limit_handler AS h WHERE h.breaker"


class ServedQueues:
    """Hold the served queues for the producer and the registration.

    ``names``: the names, without the excluded ones. ``by_share``: whether one of them serves its channels by share.
    ``guarded``: the names of the handlers with a breaker. Any thread may read them; :meth:`refresh` brings them up to
    date from the database, the names of queues with ``*`` in the options.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._using = options.using
        self._excluded = frozenset(options.excluded)
        self._all = ALL in options.queues
        self.by_share = False
        self.guarded: frozenset[str] = frozenset()
        # A worker dequeues at least once in a poll interval, so it finds a new queue within two of them.
        self._interval = options.poll_interval.total_seconds() / 2
        self._refresh_at = -math.inf
        self.names = () if self._all else tuple(name for name in options.queues if name not in self._excluded)

    def refresh(self) -> None:
        """Read the queues, at most twice in a poll interval. Raises the database's error."""
        if time.monotonic() < self._refresh_at:
            return
        if self._all:
            self.names = tuple(name for name in queue_names(using=self._using) if name not in self._excluded)
        shared = Queue.objects.using(self._using).filter(name__in=self.names, fairness="share")
        self.by_share = shared.exists()
        self.guarded = frozenset(name for (name,) in call(self._using, GUARDED))
        self._refresh_at = time.monotonic() + self._interval

    def serves(self, name: str) -> bool:
        """Return whether the worker serves this queue; with ``*``, also if ``names`` does not have it yet."""
        return name not in self._excluded if self._all else name in self.names
