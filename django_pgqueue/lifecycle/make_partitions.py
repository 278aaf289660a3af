"""make_partitions: create the archive's partitions of today and of the days ahead, without the rest of prune."""

from __future__ import annotations

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def make_partitions(*, using: str | None = None) -> int:
    """Create the partitions of the archive that are missing. Returns how many were created.

    The setting PARTITIONS_AHEAD gives the number of days ahead. Only the owner of the tables may call it. ``using``:
    database alias; default: the queue's.
    """
    made = call(alias(using), "SELECT pgqueue_make_partitions(%s::integer)", (settings.PARTITIONS_AHEAD,))[0][0]
    return int(made)
