"""Where the worker's log goes when the project says nothing about it."""

from __future__ import annotations

import logging


def configure_logging(verbosity: int) -> None:
    """Show the worker's log on stderr, unless the project has configured it. ``verbosity``: as Django's commands."""
    logger = logging.getLogger("django_pgqueue")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-8s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))
