"""Find the backends of the setting TASKS that keep tasks in this queue."""

from __future__ import annotations

import logging
from typing import Any

from django.utils.module_loading import import_string

from django_pgqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS, BaseTaskBackend, Task, task_backends

logger = logging.getLogger("django_pgqueue")
# The aliases are read for each call, but a broken one is logged once.
_logged: set[tuple[str, str]] = set()


def own_backends() -> dict[str, BaseTaskBackend]:
    """Return the backends of TASKS that keep their tasks in pgqueue, by alias.

    An alias whose backend cannot be imported or made is logged and left out.
    """
    found = {}
    for alias, params in task_backends.settings.items():
        try:
            # Backends of other packages are not made, because one that cannot be made must not matter here.
            if is_own_backend(import_string(params["BACKEND"])):
                found[alias] = task_backends[alias]
        except Exception as error:
            log_broken(alias, error)
    return found


def log_broken(alias: str, error: Exception) -> None:
    """Log that the backend ``alias`` cannot be imported or made, each problem once in a process."""
    problem = f"{type(error).__name__}: {error}"
    if (alias, problem) not in _logged:
        _logged.add((alias, problem))
        logger.error(
            "TASKS[%r] cannot be used (%s). Correct or remove it; the other backends of TASKS work.",
            alias,
            problem,
            extra={"event": "task_backend_broken"},
        )


def is_own_backend(backend: BaseTaskBackend | type[BaseTaskBackend]) -> bool:
    """Return whether the backend, or its class, keeps tasks in this queue."""
    return getattr(backend, "keeps_tasks_in_pgqueue", False)


def home_alias_of(task: Task) -> str:
    """Return the alias of the task's own backend if that is one of this queue's, or else their first alias."""
    backends = own_backends()
    return task.backend if task.backend in backends else next(iter(backends), DEFAULT_TASK_BACKEND_ALIAS)


def alias_of_message(payload: Any, task: Task) -> str:
    """Return the alias of the backend with which a task was enqueued.

    ``payload``: that of the message. Clients can write any alias into it, so one that is not this queue's is ignored.
    """
    alias = payload.get("backend") if isinstance(payload, dict) else None
    return alias if isinstance(alias, str) and alias in own_backends() else home_alias_of(task)
