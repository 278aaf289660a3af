"""Create the archive's partitions in advance, and drop those that are past retention."""

from __future__ import annotations

import logging

from django_pgqueue.lifecycle.schedules import schedule_prune
from django_pgqueue.lifecycle.upkeep import PruneCounts, prune
from django_pgqueue.maintenance.lakes import lakes_waited_for

logger = logging.getLogger("django_pgqueue.maintenance")


class Pruner:
    """Prune, and warn when more partitions than before are kept past retention, because the disk fills."""

    def __init__(self) -> None:
        self._kept = 0

    def run_once(self, using: str) -> PruneCounts:
        """Prune schedules and the archive on the database ``using``, and return the counts.

        Raises the database's error.
        """
        schedule_prune(using=using)
        counts = prune(using=using)
        if counts.partitions_kept > self._kept:
            logger.warning(
                "%d partitions of the archive are past retention and kept: a lake does not have them "
                "(KEEP_UNTIL_EXPORTED), or a long transaction uses them. Run the export, or see pgqueue doctor.%s",
                counts.partitions_kept,
                "".join(f" {lake}" for lake in lakes_waited_for(using)),
                extra={"event": "partitions_kept"},
            )
        self._kept = counts.partitions_kept
        return counts
