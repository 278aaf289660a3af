"""The slots: threads that run handlers, one message or group at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db import connections

from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.buffer import Buffer
from django_pgqueue.worker.database import Outage, tidy, without_query_log
from django_pgqueue.worker.role import Crashed, Role

ROLE = "slot"

logger = logging.getLogger("django_pgqueue.worker")


class Slots:
    """``perform`` runs the handlers of what the buffer gives and hands the outcomes on; ``abandon``: it could not.

    ``using``: alias of the queue's database. While it is away, nothing is started: it would only use up attempts.
    """

    def __init__(
        self,
        buffer: Buffer,
        *,
        perform: Callable[[list[Delivery]], None],
        abandon: Callable[[list[Delivery]], object],
        using: str,
        outage: Outage,
        crashed: Crashed,
    ) -> None:
        self._buffer = buffer
        self._perform = perform
        self._abandon = abandon
        self._using = using
        self._outage = outage
        self._threads = [
            Role(f"slot-{number}", self._run, crashed=crashed) for number in range(1, buffer.concurrency + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self, timeout: float) -> None:
        """Wait until the threads of a closed buffer have closed their connections."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        for connection in connections.all():
            without_query_log(connection)
        while (deliveries := self._next()) is not None:
            started = time.monotonic()
            try:
                self._perform(deliveries)
            except BaseException:  # a slot that dies silently would be missing until the next restart
                self._abandon(deliveries)
                ids = [delivery.id for delivery in deliveries]
                logger.exception("a slot failed; the leases of %s will expire", ids, extra={"event": "slot_failed"})
            self._tidy()
            self._buffer.finished(len(deliveries), time.monotonic() - started)

    def _next(self) -> list[Delivery] | None:
        while not self._outage.wait_until_over(0.5) and not self._buffer.closed:
            pass
        return self._buffer.take()

    def _tidy(self) -> None:
        connection = connections[self._using]
        suspicious = connection.errors_occurred
        tidy()
        if suspicious and connection.connection is None:
            # It broke under the handler. See whether the server is there, before the next message fails as well.
            self._outage.patiently(ROLE, connection.ensure_connection, sleep=self._sleep)

    def _sleep(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._buffer.closed
