"""Find the backends of the setting TASKS that are ours."""

from __future__ import annotations

import logging
from typing import Any

from django.utils.module_loading import import_string

from django_pgqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS, BaseTaskBackend, Task, task_backends

logger = logging.getLogger("django_pgqueue")
# Each call looks at the aliases: a broken alias is logged once.
_logged: set[tuple[str, str]] = set()


def own_backends() -> dict[str, BaseTaskBackend]:
    """Return the backends of ours by their aliases. An alias that is broken is logged and left out."""
    found = {}
    for alias, params in task_backends.settings.items():
        try:
            # The backends of others are not made: one that cannot be made is no matter of ours.
            if is_own_backend(import_string(params["BACKEND"])):
                found[alias] = task_backends[alias]
        except Exception as error:
            log_broken(alias, error)
    return found


def log_broken(alias: str, error: Exception) -> None:
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
    return getattr(backend, "keeps_tasks_in_pgqueue", False)


def home_alias_of(task: Task) -> str:
    """Return the backend of a task's definition if it is ours, or else the first of ours."""
    backends = own_backends()
    return task.backend if task.backend in backends else next(iter(backends), DEFAULT_TASK_BACKEND_ALIAS)


def alias_of_message(payload: Any, task: Task) -> str:
    """Return the alias with which a task was enqueued; payloads are data, so only aliases of ours count."""
    told = payload.get("backend") if isinstance(payload, dict) else None
    return told if isinstance(told, str) and told in own_backends() else home_alias_of(task)
