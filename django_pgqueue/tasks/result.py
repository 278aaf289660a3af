"""Make the results of tasks from deliveries in a worker, and from their parts in general."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from django_pgqueue.delivery import Delivery
from django_pgqueue.lifecycle.sealing import open_error, place_of
from django_pgqueue.sql.call import alias
from django_pgqueue.tasks import aliases
from django_pgqueue.tasks.compat import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultStatus,
    task_backends,
)
from django_pgqueue.tasks.errors import attempt_error
from django_pgqueue.tasks.message import arguments_of
from django_pgqueue.tasks.task import stored_task


def running_result(delivery: Delivery, task: Task) -> TaskResult:
    """Return the result of a task that a worker is about to call, with the errors of earlier attempts."""
    now = timezone.now()
    past = errors_before(delivery)
    return result_of_delivery(
        delivery, task, TaskResultStatus.RUNNING,
        started_at=attempt_began_at(past[0]) if past else now,
        last_attempted_at=now,
        errors=[attempt_error(item) for item in past],
        worker_ids=[*workers_of_errors(past), delivery.worker or ""],
    )  # fmt: skip


def result_of_delivery(delivery: Delivery, task: Task, status: TaskResultStatus, **facts: Any) -> TaskResult:
    """Return the result of a delivered task. ``facts``: as for :func:`make_result`."""
    args, kwargs = arguments_of(delivery.payload) or ([], {})
    backend = aliases.alias_of_message(delivery.payload, task)
    found = stored_task(
        task, priority=delivery.priority, queue_name=delivery.queue, backend=backend, channel=delivery.channel,
        run_after=None,
    )  # fmt: skip
    return make_result(found, str(delivery.id), backend, status, args, kwargs, enqueued_at=delivery.created_at, **facts)


def make_result(
    task: Task,
    result_id: str,
    backend: str,
    status: TaskResultStatus,
    args: list[Any],
    kwargs: dict[str, Any],
    **facts: Any,
) -> TaskResult:
    """Return a result. ``facts``: the times, ``errors`` and ``worker_ids``, as far as they are known."""
    return TaskResult(
        task=task, id=result_id, status=status, args=args, kwargs=kwargs, backend=backend,
        enqueued_at=facts.get("enqueued_at"), started_at=facts.get("started_at"),
        last_attempted_at=facts.get("last_attempted_at"), finished_at=facts.get("finished_at"),
        errors=facts.get("errors", []), worker_ids=facts.get("worker_ids", []),
    )  # fmt: skip


def sender_of(result: TaskResult) -> type[BaseTaskBackend]:
    """Return the sender of the framework's signals: the class of the result's backend."""
    return type(task_backends[result.backend])


def errors_before(delivery: Delivery) -> list[dict[str, Any]]:
    """Return the errors of the attempts before this one, oldest first; it reads the database if there were any."""
    if delivery.attempt <= 1:
        return []
    from django_pgqueue.models import Message

    found = Message.objects.using(alias(None)).filter(pk=delivery.id).values_list("errors", flat=True).first()
    place = place_of(delivery, alias(None))
    return [dict(open_error(error, place)) for error in error_entries(found)]


def error_entries(errors: Any) -> list[dict[str, Any]]:
    """Return the entries of a message's ``errors``, without those that are not objects."""
    return [item for item in errors if isinstance(item, dict)] if isinstance(errors, list) else []


def workers_of_errors(errors: list[dict[str, Any]]) -> list[str]:
    """Return the name of the worker of each failed attempt. An interruption that gave its attempt back is none."""
    return [item.get("worker") or "" for item in errors if "interruption" not in item or "attempt" in item]


def attempt_began_at(entry: dict[str, Any]) -> datetime | None:
    """Return when the handler of a failed attempt started; where only its lease is known, when that began."""
    return parsed_time(entry.get("started_at")) or parsed_time(entry.get("leased_at"))


def parsed_time(text: Any) -> datetime | None:
    """Return the datetime of a text in JSON of the database, or None if it is not one."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
