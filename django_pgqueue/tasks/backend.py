"""Define the backend for Django's Tasks framework: a task is a message in the same tables as all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.utils.asyncio import async_unsafe

from django_pgqueue.delivery import Enqueued, NewMessage
from django_pgqueue.lifecycle.enqueue import OnRefused, enqueue, enqueue_many
from django_pgqueue.tasks import aliases, registry
from django_pgqueue.tasks.compat import BaseTaskBackend, InvalidTask, Task, TaskResult, task_enqueued
from django_pgqueue.tasks.message import Call, message_of
from django_pgqueue.tasks.task import PgQueueTask, check_task

FIELDS = [item.name for item in fields(NewMessage)]


class PgQueueBackend(BaseTaskBackend):
    """Enqueue tasks as messages, in the transaction of the caller: no ``on_commit`` is needed.

    ``TASKS = {"default": {"BACKEND": "django_pgqueue.tasks.PgQueueBackend", "QUEUES": […], "OPTIONS": {…}}}``. OPTIONS:
    ``MODULES``: modules that define tasks, in addition to ``tasks.py`` of the installed apps. ``CHANNEL``,
    ``MAX_ATTEMPTS``, ``BACKOFF``: defaults of tasks that do not have their own. ``ON_REFUSED``: with "return", a call
    that is refused has a failed result instead of raising an exception.
    """

    # Backends are made while modules are imported, before the apps are ready, so this module imports no models.
    task_class = PgQueueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    keeps_tasks_in_pgqueue = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.params = params

    def validate_task(self, task: Task) -> None:
        """Raise InvalidTask for a task that the framework or this queue refuses."""
        super().validate_task(task)
        check_task(task)

    @async_unsafe("Await aenqueue() in async code.")
    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Enqueue a call of ``task`` in the transaction of the caller, and return its result.

        If a task with the same ``dedupe_key`` is live on the channel, the result has its id, and ``enqueued_at`` is
        None. A call that a full channel drops, or that is refused with ON_REFUSED = "return", has the status FAILED. In
        async code, await ``aenqueue``. Raises InvalidTask, and what :func:`django_pgqueue.enqueue` raises.
        """
        call = Call(task, args, kwargs)
        message = {name: getattr(self._message(call), name) for name in FIELDS}
        return self._answer(call, enqueue(**message, on_refused=self._on_refused))

    @async_unsafe("Await aenqueue_many() in async code.")
    def enqueue_many(self, calls: Iterable[Call]) -> list[TaskResult]:
        """Enqueue many calls in one statement: all or none, or with ON_REFUSED = "return" those that are not refused.

        Returns the results in the order of the calls. Raises what :meth:`enqueue` raises.
        """
        listed = list(calls)
        answers = enqueue_many([self._message(call) for call in listed], on_refused=self._on_refused)
        return [self._answer(call, answer) for call, answer in zip(listed, answers, strict=True)]

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[TaskResult]:
        """Enqueue many calls from async code, as :meth:`enqueue_many`."""
        return await sync_to_async(self.enqueue_many)(calls)

    @async_unsafe("Await aget_result() or arefresh() in async code.")
    def get_result(self, result_id: str) -> TaskResult:
        """Return the result of a task, for as long as the archive and the dead letters keep it.

        ``result_id``: the id of the message, as text. Raises TaskResultDoesNotExist, also for a message whose handler
        is not a task of this process.
        """
        from django_pgqueue.tasks import history  # models: not before the apps are ready

        return history.result_of(result_id)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return the problems of the backend's entry in TASKS, for Django's system checks."""
        from django_pgqueue.tasks import checks

        return list(checks.task_messages(self))

    def home_of(self, task: Task) -> str:
        """Return the alias of the backend that the definition of the task names; see :func:`aliases.home_alias_of`."""
        return aliases.home_alias_of(registry.find_task(task.module_path) or task)

    @property
    def _on_refused(self) -> OnRefused:
        on_refused: OnRefused = self.options.get("ON_REFUSED", "raise")
        return on_refused

    def _message(self, call: Call) -> NewMessage:
        self.validate_task(call.task)
        require_known(call.task)
        return message_of(self, call)

    def _answer(self, call: Call, enqueued: Enqueued) -> TaskResult:
        from django_pgqueue.tasks import enqueued as results

        if enqueued.id is None:
            return results.refused_result(call, self.alias, enqueued)
        answer = results.new_result(call, self, enqueued)
        if enqueued.created:
            task_enqueued.send_robust(sender=type(self), task_result=answer)
        return answer


def require_known(task: Task) -> None:
    """Raise InvalidTask for a task that no worker would find. Raises ImproperlyConfigured if the app is missing."""
    if is_known(task):
        return
    if not apps.is_installed("django_pgqueue"):
        raise ImproperlyConfigured(
            'django_pgqueue is not installed: add "pgtrigger" and "django_pgqueue" to INSTALLED_APPS.'
        )
    from django_pgqueue.tasks import discovery

    # The settings may have changed since the start, or another app's ready() enqueues before this app's.
    discovery.discover_tasks()
    if not is_known(task):
        module = task.func.__module__
        raise InvalidTask(
            f"No worker knows the task {task.module_path}: they look for tasks in tasks.py of the installed apps, and "
            f'in OPTIONS["MODULES"] of the backend. Define or import it in a tasks.py, or add {module!r} to MODULES.'
        )


def is_known(task: Task) -> bool:
    """Return whether this process has registered the function of the task under the task's path."""
    known = registry.find_task(task.module_path)
    return known is not None and known.func is task.func
