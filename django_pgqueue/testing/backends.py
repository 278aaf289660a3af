"""Run Django's Tasks framework in tests without a database: these backends check and record the options of this
queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import django

from django_pgqueue.delivery import NewMessage
from django_pgqueue.lifecycle.enqueue_bind import bind
from django_pgqueue.outcomes import Complete, Outcome
from django_pgqueue.tasks import Call, PgQueueTask
from django_pgqueue.tasks.compat import BaseTaskBackend, Task, TaskResult
from django_pgqueue.tasks.message import message_of
from django_pgqueue.tasks.task import check_task

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks.backends.dummy import DummyBackend as Dummy
    from django.tasks.backends.immediate import ImmediateBackend as Immediate
else:
    from django_tasks.backends.dummy import DummyBackend as Dummy
    from django_tasks.backends.immediate import ImmediateBackend as Immediate


class Recording(BaseTaskBackend):
    """Record the messages. ``messages``: what PgQueueBackend would have enqueued, in the order of the calls."""

    task_class = PgQueueTask

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.messages: list[NewMessage] = []

    def validate_task(self, task: Task) -> None:
        super().validate_task(task)
        check_task(task)

    def home_of(self, task: Task) -> str:
        """Return the alias of the backend that gets the task: this one."""
        return self.alias

    def clear(self) -> None:
        """Forget the recorded messages."""
        self.messages.clear()

    def _record(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.validate_task(task)
        message = message_of(self, Call(task, args, kwargs))  # type: ignore[arg-type]  # all that it asks is here
        # Refuses values that the queue would refuse.
        bind(message)
        self.messages.append(message)


class DummyBackend(Recording, Dummy):
    """Extend Django's dummy backend, which runs nothing, for tasks with the options of this queue."""

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        self._record(task, args, kwargs)
        return super().enqueue(task, list(args), dict(kwargs))

    def clear(self) -> None:
        """Forget the recorded messages and the results."""
        self.messages.clear()
        Dummy.clear(self)


class ImmediateBackend(Recording, Immediate):
    """Extend Django's immediate backend, which runs each task when it is enqueued, for tasks with the options of this
    queue.

    There is no later delivery: a task that returns Retry, Defer or Reject has failed, with that as its error.
    """

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Record the message, run the task at once, and return its result."""
        self._record(task, args, kwargs)
        called: Task = replace(task, func=returning_results(task.func))
        result: TaskResult = super().enqueue(called, list(args), dict(kwargs))
        object.__setattr__(result, "task", task)
        return result


def returning_results(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a task for a backend without outcomes: Complete becomes its result, any other outcome is raised."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return value_of(function(*args, **kwargs))
        except Complete as outcome:
            return outcome.result

    @wraps(function)
    async def acall(*args: Any, **kwargs: Any) -> Any:
        try:
            return value_of(await function(*args, **kwargs))
        except Complete as outcome:
            return outcome.result

    return acall if iscoroutinefunction(function) else call


def value_of(answer: Any) -> Any:
    """Return what a task returned. Raises an outcome, such as Reject, because no worker is there to settle it."""
    if isinstance(answer, Outcome):
        raise answer
    return answer
