"""make_partitions: today's partition of the archive and those of the days ahead, and nothing else of prune."""

from __future__ import annotations

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def make_partitions(*, using: str | None = None) -> int:
    """Make what is missing, by the setting PARTITIONS_AHEAD. For the owner of the tables. Returns how many
    are new."""
    made = call(alias(using), "SELECT pgqueue_make_partitions(%s::integer)", (settings.PARTITIONS_AHEAD,))[0][0]
    return int(made)
