"""Configure the worker's log if the project does not, and log the start."""

from __future__ import annotations

import logging

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.worker.options import WorkerOptions

# A worker that starts logs at most this many names of handlers.
MOST_HANDLER_NAMES = 20


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
    logger = logging.getLogger("django_pgqueue.worker")
    names = handlers.names()
    logger.info(
        "worker %s serves %s: concurrency %d, batch %d, lease %g s, %s",
        options.name, options.served, options.concurrency, options.batch, options.lease.total_seconds(),
        "LISTEN" if options.listen is not None else f"polling every {options.poll_interval.total_seconds():g} s",
        extra={"event": "worker_started", "worker": options.name, "queue": ",".join(options.queues)},
    )  # fmt: skip
    if names:
        shown = ", ".join(names[:MOST_HANDLER_NAMES]) + (
            f" and {len(names) - MOST_HANDLER_NAMES} more" * (len(names) > MOST_HANDLER_NAMES)
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
