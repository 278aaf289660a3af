"""Dequeue messages for the free slots, and sleep when there is nothing to do."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db.backends.base.base import BaseDatabaseWrapper

from django_pgqueue.delivery import Delivery, label
from django_pgqueue.lifecycle.dequeue import RepeatedDequeue
from django_pgqueue.models import Message, Queue
from django_pgqueue.sql.prepared import prepare_statements
from django_pgqueue.worker import numbers
from django_pgqueue.worker.database import dedicate_connection
from django_pgqueue.worker.dispatch import Dispatch, Wanted
from django_pgqueue.worker.listening import Ear, OnBreaker, doze
from django_pgqueue.worker.looks import Looks, ServedQueues
from django_pgqueue.worker.runtime import Role, Runtime

logger = logging.getLogger("django_pgqueue.worker")

ROLE = "producer"


class Producer(Role):
    """Run the thread that takes messages from the database and passes them to the dispatch.

    The worker makes one and starts it last. ``served``: the queues to dequeue from. ``dispatch``: says for how many
    messages there is room, holds their leases, and takes them. ``done``: called when nothing is left to do (``drain``,
    ``once``).
    """

    def __init__(self, runtime: Runtime, *, served: ServedQueues, dispatch: Dispatch, done: Callable[[], None]) -> None:
        super().__init__(ROLE, self._run, crashed=runtime.crashed)
        options = self._options = runtime.options
        self._served = served
        self._dispatch = dispatch
        self._done = done
        self._board = runtime.board
        self._outage = runtime.outage
        self._poll = options.poll_interval.total_seconds()
        self._lease = options.lease.total_seconds()
        self._dequeue = RepeatedDequeue(lease=options.lease, worker=options.name, using=options.using)
        self._looks = Looks(options, served)
        self._turn = 0
        self._look_at = self._set_aside_at = 0.0
        self._selective = numbers.SELECTIVE_SECONDS
        self._stopped = False
        self._paused = self._pause_wanted = False
        self._wake = runtime.alarm
        self._ear: Ear | None = None

    def hear(self) -> None:
        """Wake the producer after a notification, unless notifications are left to other workers."""
        if self._looks.hear():
            self._wake.set()

    def _hear_myself(self) -> None:
        if self._looks.hear():
            self._wake.keep_awake()

    def pause(self, paused: bool) -> None:
        """Stop dequeuing (``paused``), or resume it. Messages that the process has already are still handled."""
        if paused != self._pause_wanted:
            self._pause_wanted = paused
            self._wake.set()

    def listen(self, *, on_breaker: OnBreaker, deaf: Callable[[], None]) -> None:
        """Listen for notifications on the producer's own session. Call it before :meth:`start`.

        ``on_breaker``, ``deaf``: as for :class:`~django_pgqueue.worker.listening.Ear`.
        """
        self._ear = Ear(serves=self._served.serves, hear=self._hear_myself, on_breaker=on_breaker, deaf=deaf)

    def stop(self, timeout: float = 10) -> None:
        """Stop dequeuing, and wait up to ``timeout`` seconds for the present dequeue to end."""
        self._stopped = True
        self._wake.set()
        self.join(timeout)

    def connect(self) -> BaseDatabaseWrapper:
        """Give the calling thread the producer's connection, which prepares its statements and may listen. Return it.

        Its session opens at the first statement.
        """
        connection = dedicate_connection(self._options.using)
        prepare_statements(connection)
        if self._ear is not None:
            self._ear.attach(connection, self._options.name)
        return connection

    def _run(self) -> None:
        self.connect()
        while not self._stopped:
            self._outage.retry_until_success(ROLE, self.run_once, sleep=self._sleep)
        self._outage.retry_until_success(ROLE, self._looks.renounce, sleep=lambda seconds: True)

    def run_once(self) -> int:
        """Dequeue once for the free slots, or sleep until something happens. Returns how many messages were dequeued.

        Raises the database's error.
        """
        rested = self._looks.rest()
        # Cleared before the look, so that a message that arrives after it wakes the producer.
        self._wake.clear()
        if self._stopped:  # stop() may have set the flag, and the event, since the caller looked at it
            return 0
        notified = self._looks.begin()
        quiet = len(self._board) == 0
        if self._pause_wanted != self._paused:
            self._log_paused()
        if self._paused:
            self._dispatch.tend()
            self._doze(self._poll)
            return 0
        wanted = self._dispatch.wanted(settled=self._served.by_share)
        if self._options.once:
            wanted = Wanted(self._options.batch)
        if self._outage.holds_up(ROLE):
            # New messages could not be settled.
            wanted = Wanted(0)
        if wanted.messages and wanted.only is not None:
            return self._look_for(wanted, quiet=quiet)
        room = wanted.messages
        looked_at = time.monotonic()
        # A notification after a quiet time is mostly for one message, and a dequeue of one takes the short way in the
        # database. If there are more, the next look takes them.
        single = notified and not rested and not self._options.once
        asked = min(room, 1) if single else room
        found = self.look(asked) if room else 0
        self._looks.set_rest(found, asked, looked_at, single=single)
        self._looks.ended(found, asked)
        if self._options.once:
            self._once(found)
        elif self._options.drain:
            self._drain(found, quiet=quiet)
        elif found:
            self._looks.found_some(found, room)
        elif room:
            if seconds := self._looks.pause(lambda: self.look(room)):
                self._doze(seconds)
        else:
            self._doze(self._poll)
        return found

    def _look_for(self, wanted: Wanted, *, quiet: bool) -> int:
        """Dequeue only messages of handlers that have a free slot. Returns how many were dequeued."""
        now = time.monotonic()
        if now < self._look_at:
            self._doze(min(self._poll, self._look_at - now))
            return 0
        found = self.look(wanted.messages, wanted.only)
        if not found and not wanted.strict and now >= self._set_aside_at:
            self._set_aside_at = now + numbers.ASIDE_SECONDS
            found = self.look(wanted.messages)
        self._looks.set_rest(found, wanted.messages, now, single=False)
        if found:
            self._selective = numbers.SELECTIVE_SECONDS
        else:
            self._look_at = now + self._selective
            self._selective = min(numbers.LONGEST_SELECTIVE_SECONDS, 2 * self._selective)
            if self._options.drain:
                self._drain(found, quiet=quiet)
        return found

    def _log_paused(self) -> None:
        """Log that the worker is paused or resumed, after a dequeue that was under way has ended."""
        self._paused = self._pause_wanted
        extra = {"event": "worker_paused" if self._paused else "worker_resumed", "worker": self._options.name}
        logger.info("worker %s is %s", self._options.name, "paused" if self._paused else "resumed", extra=extra)

    def look(self, room: int, only: list[str] | None = None) -> int:
        """Dequeue up to ``room`` messages, from each queue in turn. Returns how many were dequeued.

        ``only``: the handlers whose messages to take; None: all handlers.
        """
        self._served.refresh()
        queues = self._served.names
        found = 0
        for step in range(len(queues)):
            queue = queues[(self._turn + step) % len(queues)]
            since = time.monotonic()
            deliveries = self._dequeue(queue, room - found, only)
            if deliveries:
                self._dispatch.hold(deliveries, since)
                if time.monotonic() - since < self._lease:
                    self._dispatch.put(deliveries)
                else:
                    self._give_back_late(deliveries, time.monotonic() - since)
                found += len(deliveries)
            if found >= room:
                break
        self._turn += 1
        if found:
            self._looks.contention.tries = 0
        return found

    def _give_back_late(self, deliveries: list[Delivery], seconds: float) -> None:
        """Give back messages whose leases ran out during the dequeue: other workers may have them already."""
        messages = ", ".join(map(label, deliveries))
        logger.warning(
            "a dequeue came back after %.1f s, too late for its leases: giving back %s. The process was stopped, "
            "or the database is slow", seconds, messages,
            extra={"event": "dequeued_too_late", "worker": self._options.name, "queue": deliveries[0].queue},
        )  # fmt: skip
        self._dispatch.give_back(deliveries)

    def _once(self, found: int) -> None:
        contention = self._looks.contention
        if not found and contention.tries < numbers.ONCE_TRIES and (pause := contention.pause(self._served.names)):
            self._doze(pause)
            return
        while self._board and not self._stopped:
            self._dispatch.tend()
            self._doze(numbers.DRAIN_INTERVAL_SECONDS)
            self._wake.clear()
        self._stopped = True
        self._done()

    def _drain(self, found: int, *, quiet: bool) -> None:
        if found:
            return
        if quiet and not self._ready():
            self._stopped = True
            self._done()
        else:
            self._doze(numbers.DRAIN_INTERVAL_SECONDS)

    def _ready(self) -> bool:
        """Return whether ready messages are left whose channel is only at a limit right now."""
        paused = Queue.objects.using(self._options.using).exclude(paused_at=None).values_list("name", flat=True)
        queues = set(self._served.names) - set(paused)
        ready = Message.objects.using(self._options.using).filter(status=Message.Status.READY)
        return ready.filter(channel__queue__in=queues, channel__paused_at=None).exists()

    def _doze(self, seconds: float) -> None:
        doze(self._wake, self._ear, seconds)

    def _sleep(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._stopped and (left := deadline - time.monotonic()) > 0:
            self._wake.wait(left)
            self._wake.clear()
        return self._stopped
