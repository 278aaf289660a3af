"""The protocol of a backend that the rest of the package uses without importing it."""

from __future__ import annotations

from typing import Any, Protocol

from django_pgqueue.tasks.compat import Task


class TaskHome(Protocol):
    """A backend of ours, :class:`django_pgqueue.tasks.backend.PgQueueBackend`.

    ``alias``: its key in the setting TASKS. ``options``: its OPTIONS there. ``params``: all that is there.
    """

    alias: str
    options: dict[str, Any]
    params: dict[str, Any]

    def home_of(self, task: Task) -> str:
        """Return the alias of the backend that the definition of the task names, if it is ours."""
