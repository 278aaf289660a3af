"""Choose the time of the next look for channels with a rate, which become due without a notification."""

from __future__ import annotations

import math
import time

from django_pgqueue.lifecycle.dequeue import next_due
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.served import ServedQueues

# The first pause before another look at a channel that is due and locked by another worker. It doubles each time.
OVERDUE_PAUSE_SECONDS = 0.005


class Upcoming:
    """Compute the producer's sleep until the next channel with a rate is due.

    It asks the database before each sleep while there are such channels, and else once in a poll interval.
    """

    def __init__(self, options: WorkerOptions, served: ServedQueues) -> None:
        self._options = options
        self._served = served
        self._poll = options.poll_interval.total_seconds()
        self._ask_at = 0.0
        self._overdue = 0

    def seconds(self) -> float:
        """Return the longest sleep in seconds; infinite if no channel waits for its rate.

        Raises the database's error.
        """
        if time.monotonic() < self._ask_at:
            return math.inf
        due = next_due(self._served.names, using=self._options.using)
        if due is None:
            self._ask_at = time.monotonic() + self._poll
            return math.inf
        if due.total_seconds() > 0:
            self._overdue = 0
            return due.total_seconds()
        self._overdue += 1
        return min(self._poll, OVERDUE_PAUSE_SECONDS * float(2 ** min(self._overdue, 10)))
