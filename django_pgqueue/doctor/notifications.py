"""Examine how full the server's queue of notifications is. When it is full, NOTIFY fails, and so does enqueue."""

from __future__ import annotations

from collections.abc import Iterator

from django_pgqueue.doctor.finding import Finding, Limits, Severity
from django_pgqueue.sql.call import call


def examine_notifications(using: str, limits: Limits) -> Iterator[Finding]:
    """Report a queue of notifications that fills up."""
    [(usage,)] = call(using, "SELECT pg_notification_queue_usage()")
    if usage > limits.notify_usage:
        yield Finding(
            "notify_queue",
            Severity.CRITICAL if usage > 5 * limits.notify_usage else Severity.WARNING,
            f"The server's queue of notifications is {usage:.2%} full: a session that listens has a transaction open. "
            "When it is full, enqueue fails.",
            "End the old transactions of sessions that LISTEN; the server log names one when the queue is half full.",
            {"usage": usage},
        )
