"""Results as the process sees them that enqueues a task, or runs it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.utils import timezone

from django_pgqueue.delivery import Delivery, Enqueued
from django_pgqueue.exceptions import ChannelFull
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.enqueue import REFUSALS
from django_pgqueue.tasks import aliases, registry
from django_pgqueue.tasks.compat import (
    BaseTaskBackend,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_backends,
)
from django_pgqueue.tasks.errors import error_of
from django_pgqueue.tasks.message import Call, arguments_of, as_defined
from django_pgqueue.tasks.task import stored

if TYPE_CHECKING:
    from django_pgqueue.tasks.backend import PgQueueBackend

DROPPED = "the channel is full, and drops what does not fit"
REFUSED_AS = {"dropped": ChannelFull, **{error.outcome: error for error in REFUSALS}}


def new(call: Call, backend: PgQueueBackend, enqueued: Enqueued) -> TaskResult:
    """Return the result of a call that was enqueued, equal to the one that ``get_result`` reads."""
    # As they come out of JSON, which has texts alone as keys.
    args, kwargs = json.loads(json.dumps([normalize_json(list(call.args)), normalize_json(dict(call.kwargs))]))
    return make(
        without_repetition(call, backend), str(enqueued.id), backend.alias, TaskResultStatus.READY, args, kwargs,
        enqueued_at=enqueued.created_at,
    )  # fmt: skip


def without_repetition(call: Call, backend: PgQueueBackend) -> Task:
    """Return the task of the call, without what ``using`` was given though the definition says it as well."""
    defined = registry.find(call.task.module_path) or call.task
    values = {name: getattr(call.task, name, None) for name in ("channel", "dedupe_key", "max_attempts")}
    given = {name: value for name, value in values.items() if value not in (None, getattr(defined, name, None))}
    if not given:
        return call.task
    repeated = given.keys() - as_defined(backend, Call(defined, call.args, call.kwargs), given).keys()
    return stored(call.task, **{name: getattr(defined, name, None) for name in repeated})


def refused(call: Call, backend: str, enqueued: Enqueued) -> TaskResult:
    """Return the result of a call that was not enqueued: its channel dropped it, or it was refused."""
    error = TaskError(
        exception_class_path=f"django_pgqueue.exceptions.{REFUSED_AS[enqueued.outcome].__name__}",
        traceback=f"The task was not enqueued: {enqueued.reason or DROPPED}\n",
    )
    return make(
        call.task, f"{enqueued.outcome}-{uuid4().hex}", backend, TaskResultStatus.FAILED, list(call.args),
        dict(call.kwargs),
        finished_at=timezone.now(), errors=[error],
    )  # fmt: skip


def running(delivery: Delivery, task: Task) -> TaskResult:
    """Of a task that a worker is about to call."""
    now = timezone.now()
    past = errors_before(delivery)
    return of_delivery(
        delivery, task, TaskResultStatus.RUNNING,
        started_at=moment(past[0].get("leased_at")) if past else now,
        last_attempted_at=now,
        errors=[error_of(item) for item in past],
        worker_ids=[*workers_of(past), delivery.worker or ""],
    )  # fmt: skip


def of_delivery(delivery: Delivery, task: Task, status: TaskResultStatus, **facts: Any) -> TaskResult:
    args, kwargs = arguments_of(delivery.payload) or ([], {})
    backend = aliases.of_message(delivery.payload, task)
    found = stored(
        task, priority=delivery.priority, queue_name=delivery.queue, backend=backend, channel=delivery.channel,
        run_after=None,
    )  # fmt: skip
    return make(found, str(delivery.id), backend, status, args, kwargs, enqueued_at=delivery.created_at, **facts)


def make(
    task: Task,
    result_id: str,
    backend: str,
    status: TaskResultStatus,
    args: list[Any],
    kwargs: dict[str, Any],
    **facts: Any,
) -> TaskResult:
    return TaskResult(
        task=task, id=result_id, status=status, args=args, kwargs=kwargs, backend=backend,
        enqueued_at=facts.get("enqueued_at"), started_at=facts.get("started_at"),
        last_attempted_at=facts.get("last_attempted_at"), finished_at=facts.get("finished_at"),
        errors=facts.get("errors", []), worker_ids=facts.get("worker_ids", []),
    )  # fmt: skip


def sender_of(result: TaskResult) -> type[BaseTaskBackend]:
    """Of the signals."""
    return type(task_backends[result.backend])


def errors_before(delivery: Delivery) -> list[dict[str, Any]]:
    """Of the attempts before this one."""
    if delivery.attempt <= 1:
        return []
    from django_pgqueue.models import Message

    found = Message.objects.using(alias(None)).filter(pk=delivery.id).values_list("errors", flat=True).first()
    return entries(found)


def entries(errors: Any) -> list[dict[str, Any]]:
    return [item for item in errors if isinstance(item, dict)] if isinstance(errors, list) else []


def workers_of(errors: list[dict[str, Any]]) -> list[str]:
    return [item.get("worker") or "" for item in errors]


def moment(text: Any) -> datetime | None:
    """A time within JSON of the database."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
