"""Announce in the database whether this worker wants notifications, and leave them to a faster worker."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta

from django_pgqueue.lifecycle.dequeue import wait
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.served import ServedQueues

# After VAIN_NOTIFICATIONS in a row that another worker answered first, this worker withdraws its announcement for
# WITHDRAWN_SECONDS. Until it finds a message, the next vain notification is enough, and the time doubles each time.
# Transactions that notify commit one after the other, so needless notifications slow down enqueuers.
VAIN_NOTIFICATIONS = 3
WITHDRAWN_SECONDS = 0.1
LONGEST_WITHDRAWN_SECONDS = 0.4
# Meanwhile it looks by itself: the others may have no free slot any more.
WITHDRAWN_LOOK_SECONDS = 0.05


class Notifications:
    """Hold the producer's announcement in the table of waiting workers, which enqueue reads to decide on a NOTIFY.

    Only the thread of the producer uses it, except for :meth:`hear`. Without ``options.listen`` it announces nothing.
    ``clock``: as time.monotonic(), in seconds.
    """

    def __init__(
        self, options: WorkerOptions, served: ServedQueues, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._options = options
        self._served = served
        self._poll = options.poll_interval.total_seconds()
        self._announced_until = 0.0
        self._heard = False
        self._answered = False
        self._vain = 0
        self._withdrawals = 0
        self._withdrawn_until = 0.0

    def hear(self) -> bool:
        """Record a notification; from any thread. Returns False while notifications are left to other workers."""
        if self._is_withdrawn:
            return False
        self._heard = True
        return True

    def answer(self) -> bool:
        """Mark the start of a look: notifications from now on belong to the next one. Returns whether there was one."""
        self._answered, self._heard = self._heard, False
        return self._answered

    def looked(self, found: int) -> None:
        """Record that the look has found ``found`` messages; none after a notification makes that one vain."""
        self._vain = 0 if found else self._vain + self._answered
        self._withdrawals = 0 if found else self._withdrawals

    def leave_to_others(self) -> bool:
        """Withdraw the announcement for a while if other workers have answered the last notifications first.

        Returns whether it is withdrawn; never with notify "always".
        """
        if self._options.notify != "always" and self._vain >= (1 if self._withdrawals else VAIN_NOTIFICATIONS):
            seconds = min(LONGEST_WITHDRAWN_SECONDS, WITHDRAWN_SECONDS * 2.0 ** min(self._withdrawals, 10))
            self._vain = 0
            self._withdrawals += 1
            self._withdrawn_until = self._clock() + seconds * random.uniform(0.8, 1.2)
            self.renounce()
        return self._is_withdrawn

    @property
    def _is_withdrawn(self) -> bool:
        return self._clock() < self._withdrawn_until

    @property
    def are_announced(self) -> bool:
        """Return whether this worker has announced itself, and not withdrawn that."""
        return self._announced_until > 0

    def announce(self) -> bool:
        """Announce that this worker wants notifications. Returns False if an earlier announcement still holds."""
        now = self._clock()
        if self._options.listen is None or self._announced_until >= now + self._poll:
            return False
        period = 2 * self._poll + 1
        self._write(timedelta(seconds=period))
        self._announced_until = now + period
        return True

    def renounce(self) -> None:
        """Withdraw the announcement, if there is one."""
        if self.are_announced:
            self._write(timedelta(0))
            self._announced_until = 0.0

    def _write(self, period: timedelta) -> None:
        wait(self._options.name, self._served.names, period, using=self._options.using)
