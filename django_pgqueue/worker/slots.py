"""The slots: threads that run handlers, one message or group at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import connections

from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.buffer import Buffer
from django_pgqueue.worker.database import tidy, without_query_log

logger = logging.getLogger("django_pgqueue.worker")


class Slots:
    """``perform`` runs the handlers of what the buffer gives and hands the outcomes on; ``abandon``: it could not."""

    def __init__(
        self, buffer: Buffer, *, perform: Callable[[list[Delivery]], None], abandon: Callable[[list[Delivery]], object]
    ) -> None:
        self._buffer = buffer
        self._perform = perform
        self._abandon = abandon
        # Daemons: a handler that never ends must not keep the process alive after its shutdown timeout.
        self._threads = [
            threading.Thread(target=self._run, name=f"pgqueue-slot-{number}", daemon=True)
            for number in range(buffer.concurrency)
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
        try:
            while (deliveries := self._buffer.take()) is not None:
                started = time.monotonic()
                try:
                    self._perform(deliveries)
                except BaseException:  # a slot that dies silently would be missing until the next restart
                    self._abandon(deliveries)
                    ids = [delivery.id for delivery in deliveries]
                    logger.exception("a slot failed; the leases of %s will expire", ids, extra={"event": "slot_failed"})
                tidy()
                self._buffer.finished(len(deliveries), time.monotonic() - started)
        finally:
            connections.close_all()
