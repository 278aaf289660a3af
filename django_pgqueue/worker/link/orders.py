"""Hold the orders that a process gets from its parent when it starts."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from django_pgqueue.worker.options import WorkerOptions


@dataclass(frozen=True, slots=True)
class Orders:
    """Hold what a new process needs to know; the supervisor sends it as the first frame.

    ``options``: those of the worker. ``verbosity``: how much is logged, as in Django's commands. ``database``: the
    identity of the queue's database in the parent. A process that finds another one must not touch it: its settings
    module does not have changes that were made at run time, as those of a test. ``path``: sys.path of the parent.
    ``python_path``: the environment variable PYTHONPATH, as the parent got it.

    ``at_start``: dotted path of a function that takes the alias of the queue's database. A child calls it when it has
    loaded the code, which is newer than the supervisor's after a reload.
    """

    options: WorkerOptions
    verbosity: int
    database: dict[str, Any]
    path: list[str]
    python_path: str | None
    at_start: str | None = None

    def take_path(self) -> None:
        """Set sys.path to the parent's, and restore PYTHONPATH for the programs that handlers start."""
        sys.path[:] = self.path
        if self.python_path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = self.python_path


def database_identity(settings: dict[str, Any]) -> dict[str, Any]:
    """Return engine, host, port and name of a database, from its entry in DATABASES."""
    return {key: settings.get(key) for key in ("ENGINE", "HOST", "PORT", "NAME")}
