"""Warn that the live messages would not survive a crash of the server, because their tables are UNLOGGED."""

from __future__ import annotations

import logging

from django_pgqueue.sql import durability

logger = logging.getLogger("django_pgqueue.maintenance")


class Reminder:
    """Warns at the first run, and at each run that finds the tables newly UNLOGGED."""

    def __init__(self) -> None:
        self._unlogged = False

    def run_once(self, using: str) -> None:
        unlogged = durability.unlogged_by_table(using).get(durability.MESSAGE, False)
        if unlogged and not self._unlogged:
            logger.warning(
                "the tables of the live messages are UNLOGGED: a crash of the server loses every message that is "
                "ready, leased or scheduled",
                extra={"event": "unlogged"},
            )
        self._unlogged = unlogged
