"""The errors of a task, as the attempts of its message have them: redacted, and of bounded length."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from django_pgqueue.tasks.compat import TaskError

# Names of errors that the queue itself records, without a module.
OURS = {
    "HandlerTimeout": "django_pgqueue.exceptions.HandlerTimeout",
    "LeaseExpired": "django_pgqueue.exceptions.WorkerDied",
    "WorkerDied": "django_pgqueue.exceptions.WorkerDied",
    "WorkerStopped": "django_pgqueue.exceptions.WorkerDied",
    "Retry": "django_pgqueue.outcomes.Retry",
    "Unreadable": "django_pgqueue.exceptions.InvalidMessage",
    "PayloadUndecodable": "django_pgqueue.exceptions.PayloadUndecodable",
}
DEAD_LETTER = "django_pgqueue.outcomes.DeadLetter"
CANCELLED = "django_pgqueue.outcomes.Cancelled"
ERROR = "django_pgqueue.exceptions.PgQueueError"


def error_of(entry: Mapping[str, Any]) -> TaskError:
    """Return the error of an attempt that failed."""
    kind, message = str(entry.get("type") or ""), str(entry.get("message") or "")
    text = str(entry.get("traceback") or "") or f"{kind}: {message}"
    return TaskError(exception_class_path=path_of(kind), traceback=f"{text}\n")


def path_of(kind: str) -> str:
    """Return the path by which the class of an exception can be imported."""
    if kind in OURS:
        return OURS[kind]
    if "." in kind:
        return kind
    return f"builtins.{kind}" if hasattr(builtins, kind) else ERROR


def refusal(reason: str, details: Any) -> TaskError:
    """Return the error of a dead letter that was requested."""
    if isinstance(details, dict) and {"type", "traceback"} <= details.keys():
        return error_of(details)
    text = f"DeadLetter: {reason}" if details is None else f"DeadLetter: {reason}: {details}"
    return TaskError(exception_class_path=DEAD_LETTER, traceback=f"{text}\n")


def ending(outcome: str, result: Any) -> TaskError:
    """Return the error of a message that was archived undone: cancelled, purged, popped."""
    reason = result.get("reason") if isinstance(result, dict) else None
    return TaskError(exception_class_path=CANCELLED, traceback=f"{outcome}: {reason}\n" if reason else f"{outcome}\n")
