"""Make the results of tasks that were enqueued or refused just now."""

from __future__ import annotations

import json
from uuid import uuid4

from django.utils import timezone

from django_pgqueue.delivery import Enqueued
from django_pgqueue.exceptions import ChannelFull
from django_pgqueue.lifecycle.enqueue import REFUSALS
from django_pgqueue.tasks import registry
from django_pgqueue.tasks.compat import Task, TaskError, TaskResult, TaskResultStatus
from django_pgqueue.tasks.home import TaskHome
from django_pgqueue.tasks.message import Call, as_defined
from django_pgqueue.tasks.result import make_result
from django_pgqueue.tasks.task import stored_task
from django_pgqueue.tasks.typed import stored_arguments

DROPPED = "the channel is full, and drops what does not fit"
REFUSED_AS = {"dropped": ChannelFull, **{error.outcome: error for error in REFUSALS}}


def new_result(call: Call, backend: TaskHome, enqueued: Enqueued) -> TaskResult:
    """Return the result of a call that was enqueued, equal to the one that ``get_result`` reads."""
    # The result has the arguments as they come back from JSON, whose keys are texts.
    args, kwargs = json.loads(json.dumps(stored_arguments(call.task, call.args, call.kwargs)))
    return make_result(
        without_repetition(call, backend), str(enqueued.id), backend.alias, TaskResultStatus.READY, args, kwargs,
        enqueued_at=enqueued.created_at,
    )  # fmt: skip


def without_repetition(call: Call, backend: TaskHome) -> Task:
    """Return the task of the call, without values of ``using()`` that repeat its definition.

    ``get_result`` cannot distinguish these from the definition, and the two results must be equal.
    """
    defined = registry.find_task(call.task.module_path) or call.task
    values = {name: getattr(call.task, name, None) for name in ("channel", "dedupe_key", "order_key", "max_attempts")}
    given = {name: value for name, value in values.items() if value not in (None, getattr(defined, name, None))}
    if not given:
        return call.task
    repeated = given.keys() - as_defined(backend, Call(defined, call.args, call.kwargs), given).keys()
    return stored_task(call.task, **{name: getattr(defined, name, None) for name in repeated})


def refused_result(call: Call, backend: str, enqueued: Enqueued) -> TaskResult:
    """Return the failed result of a call that was not enqueued: its channel dropped it, or it was refused."""
    error = TaskError(
        exception_class_path=f"django_pgqueue.exceptions.{REFUSED_AS[enqueued.outcome].__name__}",
        traceback=f"The task was not enqueued: {enqueued.reason or DROPPED}\n",
    )
    return make_result(
        call.task, f"{enqueued.outcome}-{uuid4().hex}", backend, TaskResultStatus.FAILED, list(call.args),
        dict(call.kwargs),
        finished_at=timezone.now(), errors=[error],
    )  # fmt: skip
