"""The tasks that this process knows, by their paths. A path in a message chooses among them, and imports nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_pgqueue import handlers
from django_pgqueue.tasks.compat import Task
from django_pgqueue.tasks.execute import function_of
from django_pgqueue.tasks.options import options_of

# The functions are kept, so that a task that is registered again is not taken for another one of the same name.
_known: dict[str, tuple[Task, Callable[..., Any]]] = {}


def register(task: Task) -> Task:
    """Make a task known to this process, as a handler that has the task's path as its name.

    For tasks that are not in a module which is looked through: ``tasks.py`` of an installed app, or one of OPTIONS
    ``MODULES``. Raises ValueError.
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
    """Return the task as it is defined."""
    known = _known.get(path)
    # A module that failed when it was imported again has lost its handlers.
    return known[0] if known is not None and handlers.find(path) is not None else None


def task_paths() -> list[str]:
    return sorted(path for path in _known if handlers.find(path) is not None)


def forget_task(path: str) -> None:
    """For tests."""
    if _known.pop(path, None) is not None:
        handlers.unregister(path)
