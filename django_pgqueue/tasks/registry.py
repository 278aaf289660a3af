"""Register the tasks of this process by their paths. A path in a message chooses among them, and imports nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_pgqueue import handlers
from django_pgqueue.tasks.compat import Task
from django_pgqueue.tasks.execute import function_of
from django_pgqueue.tasks.options import options_of

# The handlers' functions are kept, so that a task can be registered again without a conflict of names.
_known: dict[str, tuple[Task, Callable[..., Any]]] = {}


def register(task: Task) -> Task:
    """Register a task as a handler of this process, under the task's path, and return it.

    It is for tasks outside of ``tasks.py`` of the installed apps and of OPTIONS ``MODULES``, which are registered by
    themselves. Raises ValueError for options that are not valid for its function.
    """
    path = task.module_path
    known = _known.get(path)
    if known is None or known[0].func is not task.func:
        if known is not None:
            handlers.unregister(path)
        _known[path] = known = task, function_of(task)
    handlers.handler(path, queue=known[0].queue_name, **options_of(task).policy())(known[1])
    return task


def find_task(path: str) -> Task | None:
    """Return the registered task of this path, as it is defined, or None."""
    known = _known.get(path)
    # A module that failed when it was imported again has lost its handlers.
    return known[0] if known is not None and handlers.find(path) is not None else None


def task_paths() -> list[str]:
    """Return the paths of all registered tasks, sorted."""
    return sorted(path for path in _known if handlers.find(path) is not None)


def forget_task(path: str) -> None:
    """Unregister the task of this path, if it is registered. For tests."""
    if _known.pop(path, None) is not None:
        handlers.unregister(path)
