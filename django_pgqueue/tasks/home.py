"""Describe the backend for modules that use it without importing it."""

from __future__ import annotations

from typing import Any, Protocol

from django_pgqueue.tasks.compat import Task


class TaskHome(Protocol):
    """Describe what other modules need of :class:`django_pgqueue.tasks.backend.PgQueueBackend`.

    ``alias``: its key in the setting TASKS. ``params``: its entry there. ``options``: the OPTIONS of the entry.
    """

    alias: str
    options: dict[str, Any]
    params: dict[str, Any]

    def home_of(self, task: Task) -> str:
        """Return the alias of the task's own backend if it is one of this queue's, or else their first alias."""
