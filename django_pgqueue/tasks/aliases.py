"""Which backends of the setting TASKS are ours."""

from __future__ import annotations

from typing import Any

from django_pgqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS, BaseTaskBackend, Task, task_backends


def own() -> dict[str, BaseTaskBackend]:
    """By alias."""
    found = {alias: task_backends[alias] for alias in task_backends.settings}
    return {alias: backend for alias, backend in found.items() if is_ours(backend)}


def is_ours(backend: BaseTaskBackend) -> bool:
    return getattr(backend, "keeps_tasks_in_pgqueue", False)


def home_of(task: Task) -> str:
    """The backend of a task's definition if it is ours, or else the first of ours."""
    backends = own()
    return task.backend if task.backend in backends else next(iter(backends), DEFAULT_TASK_BACKEND_ALIAS)


def of_message(payload: Any, task: Task) -> str:
    """The alias with which it was enqueued. Payloads are data: nothing is looked for that is not ours."""
    told = payload.get("backend") if isinstance(payload, dict) else None
    return told if isinstance(told, str) and told in own() else home_of(task)
