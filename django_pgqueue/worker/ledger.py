"""Count, log and signal settlements, after they are written."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.dispatch import Signal

from django_pgqueue.delivery import Delivery, label
from django_pgqueue.outcomes import Complete, Defer, Reject
from django_pgqueue.signals import (
    message_cancelled,
    message_completed,
    message_dead_lettered,
    message_deferred,
    message_retried,
)
from django_pgqueue.worker.executor import Execution

logger = logging.getLogger("django_pgqueue.worker")

SIGNALS: dict[str, Signal] = {
    "completed": message_completed,
    "deferred": message_deferred,
    "retried": message_retried,
    "dead_lettered": message_dead_lettered,
    "cancelled": message_cancelled,
}
LEVELS = {"retried": logging.WARNING, "dead_lettered": logging.ERROR}


class Ledger:
    """Count the settlements of a worker by event; the completer and atomic handlers report them.

    ``using``: database alias, for the signals. ``worker``: name of the worker, for log lines.
    """

    def __init__(self, using: str, worker: str) -> None:
        self.using = using
        self.worker = worker
        self.started_at = time.monotonic()
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()

    def totals(self) -> dict[str, int]:
        """Return the numbers of messages by event, since the start of the worker.

        Those that went back and were not started are ``given_back``, and not ``deferred``.
        """
        with self._lock:
            return {
                event: self._totals[event]
                for event in (
                    "completed", "deferred", "retried", "dead_lettered", "cancelled", "given_back", "lease_lost"
                )
            }  # fmt: skip

    def settled(self) -> int:
        """Return how many messages were settled, with any outcome of theirs."""
        with self._lock:
            return self._totals.total() - self._totals["lease_lost"] - self._totals["given_back"]

    def record(self, executions: list[Execution], settled: Mapping[int, str]) -> None:
        """Count, log and signal the executions.

        ``settled``: the event of each message by its id; executions of other messages are skipped.
        """
        for event in dict.fromkeys(settled.values()):
            self._record(event, [execution for execution in executions if settled.get(execution.delivery.id) == event])

    def _record(self, event: str, executions: list[Execution]) -> None:
        given_back = sum(execution.is_given_back for execution in executions) if event == "deferred" else 0
        with self._lock:
            self._totals[event] += len(executions) - given_back
            self._totals["given_back"] += given_back
        # With the setting DEBUG, events without a problem are logged as information.
        level = LEVELS.get(event, logging.INFO if settings.DEBUG else logging.DEBUG)
        for execution in executions if logger.isEnabledFor(level) else ():
            extra = self._keys(event, execution.delivery, execution.seconds)
            # A handler that refuses a message on purpose has not failed.
            own = logging.INFO if isinstance(execution.outcome, Reject) else level
            logger.log(own, "%s: %s", event, describe_execution(execution), extra=extra)
        signal = SIGNALS[event]
        for execution in executions if signal.receivers else ():
            outcome, more = execution.outcome, {}
            if event == "dead_lettered":
                more = {"reason": outcome.reason if isinstance(outcome, Reject) else execution.reason}
            # send_robust logs what a receiver raises: an observer must not undo what is settled.
            signal.send_robust(
                Delivery, delivery=execution.delivery, using=self.using, outcome=outcome, error=execution.error, **more
            )

    def lost(self, deliveries: Iterable[Delivery], *, effects: str) -> None:
        """Count and log leases that were swept after their expiry, or settled by another process.

        ``effects``: the end of the log line, which describes the consequence.
        """
        for delivery in deliveries:
            with self._lock:
                self._totals["lease_lost"] += 1
            logger.warning(
                "the lease of %s (attempt %d) is lost: %s",
                label(delivery), delivery.attempt, effects, extra=self._keys("lease_lost", delivery),
            )  # fmt: skip

    def close(self) -> None:
        """Log the last line of the worker, with its run time and its totals."""
        seconds, totals = time.monotonic() - self.started_at, self.totals()
        counts = ", ".join(f"{count} {event.replace('_', ' ')}" for event, count in totals.items())
        extra = {"event": "worker_stopped", "worker": self.worker, "duration_ms": round(seconds * 1000), **totals}
        logger.info("worker %s stopped after %.1f s: %s", self.worker, seconds, counts, extra=extra)

    def _keys(self, event: str, delivery: Delivery, seconds: float = 0.0) -> dict[str, Any]:
        return {
            "event": event,
            "queue": delivery.queue,
            "channel": delivery.channel,
            "message_id": delivery.id,
            "attempt": delivery.attempt,
            "worker": self.worker,
            "duration_ms": round(seconds * 1000, 3),
        }


def short_duration(seconds: float) -> str:
    """Return a number of seconds as a short text: ``0.4 ms``, ``12 ms`` or ``3.5 s``."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.{0 if seconds >= 0.01 else 1}f} ms"


def describe_execution(execution: Execution) -> str:
    """Return the text of a log line: the message, its attempt and duration, and the error if there is one."""
    delivery, outcome = execution.delivery, execution.outcome
    attempt = f"attempt {delivery.attempt} of {delivery.max_attempts}"
    what = f"{label(delivery)} ({attempt}, {short_duration(execution.seconds)})"
    if isinstance(outcome, Complete | Defer) and execution.error is None:
        return what
    if isinstance(outcome, Reject):
        return f"{what}, {outcome.reason}"
    error = execution.error or {}
    return f"{what}, {error.get('type', '')}: {error.get('message', '')[:500]}"
