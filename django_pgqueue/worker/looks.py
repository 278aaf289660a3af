"""Decide in which queues the producer looks for messages and when, and whether it wants notifications meanwhile."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from django_pgqueue.lifecycle.dequeue import is_contended, next_due, wait
from django_pgqueue.lifecycle.queues import queue_names
from django_pgqueue.models import Queue
from django_pgqueue.sql.call import call
from django_pgqueue.worker import numbers
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


class Contention:
    """Compute the pause after an empty dequeue, when other consumers have locked what is there.

    ``using``: database alias. ``shortest``: the seconds of the first pause. ``tries``: looks in a row that found only
    messages locked by others; a look that finds messages sets it to 0.
    """

    def __init__(self, using: str | None, shortest: float = numbers.SHORTEST_PAUSE_SECONDS) -> None:
        self._using = using
        self._shortest = shortest
        self.tries = 0

    def pause(self, queues: Iterable[str]) -> float:
        """Return the seconds until the next look: they double each time, with jitter. 0: no other consumer has a lock.

        ``queues``: the names to ask the database about. Raises its error.
        """
        if not is_contended(queues, using=self._using):
            self.tries = 0
            return 0.0
        self.tries += 1
        longest = min(numbers.LONGEST_PAUSE_SECONDS, self._shortest * 2.0 ** min(self.tries, 10))
        return longest * random.uniform(0.5, 1.0)


class Looks:
    """Count the producer's looks for messages, and decide from them when the next one follows.

    While messages trickle in, a notified worker starts them soonest: it announces itself in the table of waiting
    workers, which enqueue reads to decide on a NOTIFY. In a flood it looks again by itself, and enqueuers need not
    notify. If others answer the notifications first, it leaves them to these for a while. Only the thread of the
    producer uses it, except for :meth:`hear`. Without ``options.listen`` it announces nothing.

    ``clock``: as time.monotonic(), in seconds. ``shortest_rest``: the seconds between two looks while messages trickle
    in.
    """

    def __init__(
        self, options: WorkerOptions, served: ServedQueues, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._options = options
        self._served = served
        self._poll = options.poll_interval.total_seconds()
        self.shortest_rest = numbers.REST_SECONDS * options.processes
        self.contention = Contention(options.using, self.shortest_rest)
        # When the next look may be, and whether there was a rest since the last one.
        self._rest_until = 0.0
        self._has_rested = False
        # Whether a notification came since the last look began, and before it; those in a row that were vain.
        self._heard = self._answered = False
        self._vain = 0
        self._announced_until = 0.0
        self._withdrawals = 0
        self._withdrawn_until = 0.0
        # Looks in a row that found messages, and that found none; whether a flood has begun and not ended.
        self._successes = self._failures = 0
        self._flood = False
        self._ask_due_at = 0.0
        self._overdue = 0

    def hear(self) -> bool:
        """Record a notification; from any thread. Returns False while notifications are left to other workers."""
        if self._clock() < self._withdrawn_until:
            return False
        self._heard = True
        return True

    def rest(self) -> bool:
        """Wait until the next look may be. Returns whether there was a rest since the last one."""
        left = self._rest_until - time.monotonic()
        if left > 0:
            time.sleep(left)
        rested, self._has_rested = self._has_rested or left > 0, False
        return rested

    def begin(self) -> bool:
        """Begin a look: notifications from now on belong to the next one. Returns whether there was one before."""
        self._answered, self._heard = self._heard, False
        return self._answered

    def ended(self, found: int, asked: int) -> None:
        """Record that a look for ``asked`` messages has found ``found``; none after a notification: it was vain."""
        if asked:
            self._vain = 0 if found else self._vain + self._answered
            self._withdrawals = 0 if found else self._withdrawals
        self._successes = self._successes + 1 if found else 0
        self._failures = 0 if found else self._failures + 1

    def set_rest(self, found: int, asked: int, looked_at: float, *, single: bool) -> None:
        """Set the time of the next look, after one that began at ``looked_at`` (time.monotonic()).

        ``single``: it answered a notification by asking for one message. If it got that, this waits at once, before
        the producer does anything else.
        """
        self._rest_until = 0.0
        if found < asked:
            seconds = self.shortest_rest
            if found > numbers.MANY_MESSAGES:
                longer = min(numbers.TIMES_OF_A_LOOK * (time.monotonic() - looked_at), numbers.LONGEST_REST_SECONDS)
                seconds = max(seconds, longer * self._options.processes)
            self._rest_until = looked_at + seconds
        elif single and found:
            time.sleep(numbers.HANDLER_FIRST_SECONDS)
            self._has_rested = True

    def found_some(self, found: int, room: int) -> None:
        """Keep the announcement, or withdraw it in a flood. ``found``: messages of the last look, for ``room``."""
        if self._options.notify == "always":
            self.announce()
        elif self.are_announced and (1 < found == room or self._successes >= numbers.FLOOD_LOOKS):
            self.renounce()
            self._flood = True

    def pause(self, look_again: Callable[[], int]) -> float:
        """Return the seconds until the next look, after one that found nothing; 0: at once.

        ``look_again``: looks for messages that came before the announcement, so that nothing notified this worker of
        them. Returns their number. Raises the database's error.
        """
        if self.leave_to_others():
            return numbers.WITHDRAWN_LOOK_SECONDS
        if self._flood and self._failures < numbers.EBB_LOOKS:
            # An announcement would cost each enqueuer a lock.
            return min(self.shortest_rest * 2.0**self._failures, self.until_due())
        self._flood = False
        if self.announce() and look_again():
            return 0.0
        contended = self.contention.pause(self._served.names)
        return contended or min(self._poll * random.uniform(0.8, 1.0), self.until_due())

    def until_due(self) -> float:
        """Return the seconds until the next channel with a rate is due; infinite if none waits for its rate.

        It asks the database each time while there are such channels, and else once in a poll interval. Raises its
        error.
        """
        if time.monotonic() < self._ask_due_at:
            return math.inf
        due = next_due(self._served.names, using=self._options.using)
        if due is None:
            self._ask_due_at = time.monotonic() + self._poll
            return math.inf
        if due.total_seconds() > 0:
            self._overdue = 0
            return due.total_seconds()
        self._overdue += 1
        return min(self._poll, numbers.OVERDUE_PAUSE_SECONDS * float(2 ** min(self._overdue, 10)))

    def leave_to_others(self) -> bool:
        """Withdraw the announcement for a while if other workers have answered the last notifications first.

        Returns whether it is withdrawn; never with notify "always".
        """
        if self._options.notify != "always" and self._vain >= (1 if self._withdrawals else numbers.VAIN_NOTIFICATIONS):
            seconds = min(
                numbers.LONGEST_WITHDRAWN_SECONDS, numbers.WITHDRAWN_SECONDS * 2.0 ** min(self._withdrawals, 10)
            )
            self._vain = 0
            self._withdrawals += 1
            self._withdrawn_until = self._clock() + seconds * random.uniform(0.8, 1.2)
            self.renounce()
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
        period = 2 * self._poll + numbers.ANNOUNCED_SECONDS
        wait(self._options.name, self._served.names, timedelta(seconds=period), using=self._options.using)
        self._announced_until = now + period
        return True

    def renounce(self) -> None:
        """Withdraw the announcement, if there is one."""
        if self.are_announced:
            wait(self._options.name, self._served.names, timedelta(0), using=self._options.using)
            self._announced_until = 0.0
