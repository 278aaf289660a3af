"""Warn that the live messages would not survive a crash of the server, because their tables are UNLOGGED."""

from __future__ import annotations

import logging

from django_pgqueue.sql import durability

logger = logging.getLogger("django_pgqueue.maintenance")


class Reminder:
    """Warn at the first run, and again when the tables have become UNLOGGED since the last run."""

    def __init__(self) -> None:
        self._unlogged = False

    def run_once(self, using: str) -> None:
        """Look at the tables of the database ``using``. Raises the database's error."""
        unlogged = durability.unlogged_by_table(using).get(durability.MESSAGE, False)
        if unlogged and not self._unlogged:
            logger.warning(
                "the tables of the live messages are UNLOGGED: a crash of the server loses every message that is "
                "ready, leased or scheduled. queuedurability --logged changes that",
                extra={"event": "unlogged"},
            )
        self._unlogged = unlogged
