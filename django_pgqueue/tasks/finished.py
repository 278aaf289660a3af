"""Send task_finished after the settlement of a task is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import Error
from django.utils import timezone

from django_pgqueue.delivery import Delivery
from django_pgqueue.outcomes import Complete, Reject
from django_pgqueue.signals import message_cancelled, message_completed, message_dead_lettered
from django_pgqueue.tasks import registry
from django_pgqueue.tasks.compat import (
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_finished,
)
from django_pgqueue.tasks.errors import archived_error, attempt_error, dead_letter_error
from django_pgqueue.tasks.result import result_of_delivery, sender_of

EVENTS = (message_completed, message_dead_lettered, message_cancelled)


class TaskFailed(Exception):
    """Stand for the exception of a failed task in the framework's log: its last error, with secrets hidden."""


def connect_signals() -> None:
    """Connect :func:`send_finished` to the signals of settlements that end a message."""
    for signal in EVENTS:
        signal.connect(send_finished, dispatch_uid="django_pgqueue.tasks")


def send_finished(
    signal: Any, delivery: Delivery, outcome: Any, error: Mapping[str, Any] | None, **kwargs: Any
) -> None:
    """Send task_finished for a message that has ended, if it is a task; a receiver of the signals in EVENTS."""
    task = registry.find_task(delivery.handler)
    if task is None or not task_finished.receivers:
        return
    failure = None if signal is message_completed else failure_of(signal, outcome, error)
    result = stored_result(delivery) or delivered_result(delivery, task, outcome, failure)
    if failure is None:
        task_finished.send_robust(sender=sender_of(result), task_result=result)
        return
    # The framework's receiver logs the exception that is being handled. The task's own one would show its secrets.
    try:
        raise TaskFailed(result.errors[-1].traceback.rstrip()) from None
    except TaskFailed:
        task_finished.send_robust(sender=sender_of(result), task_result=result)


def failure_of(signal: Any, outcome: Any, error: Mapping[str, Any] | None) -> TaskError:
    """Return the error of a message that was cancelled or dead-lettered."""
    if signal is message_cancelled:
        return archived_error("cancelled", {"reason": getattr(outcome, "reason", "")})
    if isinstance(outcome, Reject):
        return dead_letter_error(outcome.reason, outcome.details)
    return attempt_error(error or {})


def stored_result(delivery: Delivery) -> TaskResult | None:
    """Read the result from the database; None for a first attempt, or if it cannot be read or was not archived."""
    if delivery.attempt <= 1:
        return None
    from django_pgqueue.tasks import history

    try:
        return history.result_of(str(delivery.id))
    except (Error, TaskResultDoesNotExist):
        return None


def delivered_result(delivery: Delivery, task: Task, outcome: Any, failure: TaskError | None) -> TaskResult:
    """Return the result of the task from what this worker has, without the database."""
    status = TaskResultStatus.SUCCESSFUL if failure is None else TaskResultStatus.FAILED
    result = result_of_delivery(
        delivery, task, status, finished_at=timezone.now(), errors=[] if failure is None else [failure],
        worker_ids=[delivery.worker or ""] * delivery.attempt,
    )  # fmt: skip
    if isinstance(outcome, Complete):
        object.__setattr__(result, "_return_value", outcome.result)
    return result
