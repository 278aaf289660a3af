"""The orders that a child gets when it starts."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from django_pgqueue.worker.options import WorkerOptions


@dataclass(frozen=True, slots=True)
class Orders:
    """``path``: of the modules. ``python_path``: the environment variable, as it was for the supervisor.

    ``at_start``: dotted path of a function that takes the alias of the queue's database. A child calls it when it has
    loaded the code, which is newer than the supervisor's after a reload. The process of a single handler has none.

    ``database``: where the queue is. A child that finds itself elsewhere must not touch anything: its settings module
    does not say what the supervisor's settings were changed to, as those of a test are.
    """

    options: WorkerOptions
    verbosity: int
    database: dict[str, Any]
    path: list[str]
    python_path: str | None
    at_start: str | None = None

    def take_path(self) -> None:
        """Find modules where the supervisor finds them; and let programs that handlers start find their own."""
        sys.path[:] = self.path
        if self.python_path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = self.python_path


def database_identity(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the identity of a database, from its entry in DATABASES."""
    return {key: settings.get(key) for key in ("ENGINE", "HOST", "PORT", "NAME")}
