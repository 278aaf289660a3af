"""Whether this worker wants to be notified: announced in the database, for enqueuers to see, and left to another worker
that is faster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta

from django_pgqueue.lifecycle.wait import wait
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.served import ServedQueues

# So many notifications in a row that somebody else was faster to answer: for so many seconds they are left to him. Each
# enqueue that has to notify commits alone, so a second worker that is woken in vain would slow down the enqueuers.
VAIN = 3
WITHDRAWN = 0.1


class Notifications:
    """The producer's own, but for ``hear``. With ``options.listen`` None there are none."""

    def __init__(self, options: WorkerOptions, served: ServedQueues) -> None:
        self._options = options
        self._served = served
        self._poll = options.poll_interval.total_seconds()
        self._announced_until = 0.0
        self._heard = False
        self._answered = False
        self._vain = 0
        self._withdrawn = False

    def hear(self) -> bool:
        """One came; from any thread. Returns whether it concerns us."""
        if self._withdrawn:
            return False
        self._heard = True
        return True

    def answer(self) -> None:
        """Before a look: what comes from now on is for the next one."""
        self._answered, self._heard = self._heard, False

    def looked(self, found: int) -> None:
        self._vain = 0 if found else self._vain + self._answered

    @property
    def are_vain(self) -> bool:
        return self._vain >= VAIN and self._options.notify != "always"

    @property
    def are_announced(self) -> bool:
        return self._announced_until > 0

    def announce(self) -> bool:
        """Say that we want them, unless an earlier word holds. Returns whether it was necessary."""
        now = time.monotonic()
        if self._options.listen is None or self._announced_until >= now + self._poll:
            return False
        period = 2 * self._poll + 1
        self._say(timedelta(seconds=period))
        self._announced_until = now + period
        return True

    def renounce(self) -> None:
        """Say that we do not want them any more, if we ever said so."""
        if self.are_announced:
            self._say(timedelta(0))
            self._announced_until = 0.0

    def leave_to_others(self, sleep: Callable[[float], object]) -> None:
        self._vain = 0
        self.renounce()
        self._withdrawn = True
        sleep(WITHDRAWN * random.uniform(0.8, 1.2))
        self._withdrawn = False

    def _say(self, period: timedelta) -> None:
        wait(self._options.name, self._served.names, period, using=self._options.using)
