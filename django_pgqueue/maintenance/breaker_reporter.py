"""Report once what happened to breakers: by a log line and a signal."""

from __future__ import annotations

import logging

from django_pgqueue.lifecycle.breakers import BreakerChange, breaker_changes
from django_pgqueue.signals import breaker_closed, breaker_opened, breaker_tried

SIGNALS = {"opened": breaker_opened, "tried": breaker_tried, "closed": breaker_closed}
logger = logging.getLogger("django_pgqueue.maintenance")


def run_once(using: str) -> None:
    """Report the changes that no other worker has reported, on the database ``using``. Raises the database's error."""
    for change in breaker_changes(using=using):
        extra = {
            "event": f"breaker_{change.change}",
            "handler": change.handler,
            "queue": change.queue,
            "channel": change.channel,
            "message_id": change.message_id,
        }
        level = logging.WARNING if change.change == "opened" else logging.INFO
        logger.log(level, "the breaker of %s %s", change.name(), describe_change(change), extra=extra)
        # send_robust logs what a receiver raises: the other changes must be reported, too.
        SIGNALS[change.change].send_robust(sender=BreakerChange, change=change, using=using)


def describe_change(change: BreakerChange) -> str:
    """Return the end of the log line, which says what the change means for the messages of the handler."""
    match change.change:
        case "opened":
            until = "" if change.until is None else f", and one tries after {change.until:%Y-%m-%d %H:%M:%S %Z}"
            return f"is open: its messages wait{until}. Look at the errors of the handler, and at what it calls"
        case "tried":
            return f"lets message #{change.message_id} try"
        case "closed":
            return "is closed: its messages go on"
