"""prune: partitions ahead, retention, and channels that were released."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = """
SELECT partitions_made, partitions_dropped, dead_letters_deleted, channels_removed
FROM pgqueue_prune(%s::interval, %s::interval, %s::integer)
"""


@dataclass(frozen=True, slots=True)
class PruneCounts:
    partitions_made: int
    partitions_dropped: int
    dead_letters_deleted: int
    channels_removed: int


def prune(*, using: str | None = None) -> PruneCounts:
    """Keep house by the settings ARCHIVE_RETENTION, DEAD_LETTER_RETENTION and PARTITIONS_AHEAD. Safe to run from
    many places at once."""
    return PruneCounts(
        *call(
            alias(using), SQL, (settings.ARCHIVE_RETENTION, settings.DEAD_LETTER_RETENTION, settings.PARTITIONS_AHEAD)
        )[0]
    )
