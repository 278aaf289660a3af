"""Give a new process its orders, set it up, and configure the log.

Nothing of Django is imported before sys.path is set.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from typing import Any

from django_pgqueue.worker import numbers
from django_pgqueue.worker.link import Link
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


def prepare_process(orders: Orders, link: Link) -> bool:
    """Set up Django and logging, and check that the settings lead to the same database as those of the parent.

    ``orders``: the first frame of ``link``. Returns whether they are the same; if not, the link has carried a frame
    ``refused``.
    """
    orders.take_path()

    import django

    django.setup()

    from django.db import connections

    configure_logging(orders.verbosity)
    found = database_identity(connections[orders.options.using].settings_dict)
    if found == orders.database:
        return True
    differing = [key for key in found if found[key] != orders.database[key]]
    here, there = (", ".join(f"{key} {side[key]!r}" for key in differing) for side in (found, orders.database))
    refusal = (
        f"the settings module {os.environ['DJANGO_SETTINGS_MODULE']} leads to another database than the process uses "
        f"that started it: {here}, not {there}. With settings that were changed at run time, use --processes 0."
    )
    link.send("refused", refusal)
    return False


def configure_logging(verbosity: int) -> None:
    """Write the log of the package to stderr, unless the project has configured logging.

    ``verbosity``: as in Django's commands: 0 shows warnings, 1 information, more also debug messages.
    """
    logger = logging.getLogger("django_pgqueue")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-8s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))


def log_start(options: WorkerOptions) -> None:
    """Log the queues and options of a worker that starts, and its handlers; warn if there are none."""
    from django_pgqueue import handlers
    from django_pgqueue.conf import settings

    logger = logging.getLogger("django_pgqueue.worker")
    names = handlers.names()
    logger.info(
        "worker %s serves %s: concurrency %d, batch %d, lease %g s, %s",
        options.name, options.served, options.concurrency, options.batch, options.lease.total_seconds(),
        "LISTEN" if options.listen is not None else f"polling every {options.poll_interval.total_seconds():g} s",
        extra={"event": "worker_started", "worker": options.name, "queue": ",".join(options.queues)},
    )  # fmt: skip
    if names:
        shown = ", ".join(names[: numbers.MOST_HANDLER_NAMES]) + (
            f" and {len(names) - numbers.MOST_HANDLER_NAMES} more" * (len(names) > numbers.MOST_HANDLER_NAMES)
        )
        extra = {"event": "handlers_found", "worker": options.name}
        logger.info("%d handler(s): %s", len(names), shown, extra=extra)
    else:
        logger.warning(
            "no handler is registered: messages wait up to %s for a worker that has theirs, and then become dead "
            "letters. Put functions with @handler into handlers.py of an installed app.",
            settings.UNKNOWN_HANDLER_GRACE,
            extra={"event": "no_handlers", "worker": options.name},
        )
