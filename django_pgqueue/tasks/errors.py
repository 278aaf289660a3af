"""Make the errors of a task from those of its message, which are redacted and of bounded length."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from django_pgqueue.tasks.compat import TaskError

# The classes of errors that the queue itself records by a name without a module.
QUEUE_ERRORS = {
    "HandlerTimeout": "django_pgqueue.exceptions.HandlerTimeout",
    "LeaseExpired": "django_pgqueue.exceptions.WorkerDied",
    "WorkerDied": "django_pgqueue.exceptions.WorkerDied",
    "WorkerStopped": "django_pgqueue.exceptions.WorkerDied",
    "Retry": "django_pgqueue.outcomes.Retry",
    "Unreadable": "django_pgqueue.exceptions.InvalidMessage",
    "PayloadUndecodable": "django_pgqueue.exceptions.PayloadUndecodable",
}
DEAD_LETTER = "django_pgqueue.outcomes.Reject"
CANCELLED = "django_pgqueue.outcomes.Cancelled"
ERROR = "django_pgqueue.exceptions.PgQueueError"


def attempt_error(entry: Mapping[str, Any]) -> TaskError:
    """Return the error of an attempt that failed. ``entry``: an item of the message's ``errors``."""
    kind, message = str(entry.get("type") or ""), str(entry.get("message") or "")
    text = str(entry.get("traceback") or "") or f"{kind}: {message}"
    return TaskError(exception_class_path=class_path_of(kind), traceback=f"{text}\n")


def class_path_of(kind: str) -> str:
    """Return the dotted path of an exception class; that of PgQueueError for an unknown name.

    ``kind``: the name of the class as a message's ``errors`` have it, with its module or without.
    """
    if kind in QUEUE_ERRORS:
        return QUEUE_ERRORS[kind]
    if "." in kind:
        return kind
    return f"builtins.{kind}" if hasattr(builtins, kind) else ERROR


def dead_letter_error(reason: str, details: Any) -> TaskError:
    """Return the error of a dead letter that the handler or an operator requested, with its reason and details."""
    if isinstance(details, dict) and {"type", "traceback"} <= details.keys():
        return attempt_error(details)
    text = f"Reject: {reason}" if details is None else f"Reject: {reason}: {details}"
    return TaskError(exception_class_path=DEAD_LETTER, traceback=f"{text}\n")


def archived_error(outcome: str, result: Any) -> TaskError:
    """Return the error of a message that was archived without being completed.

    ``outcome``: cancelled, purged, popped or dropped. ``result``: the archived result, which may have a reason.
    """
    reason = result.get("reason") if isinstance(result, dict) else None
    return TaskError(exception_class_path=CANCELLED, traceback=f"{outcome}: {reason}\n" if reason else f"{outcome}\n")
