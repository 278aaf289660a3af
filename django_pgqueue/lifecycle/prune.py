"""prune: partitions ahead, retention, and channels that were released."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = """
SELECT partitions_made, partitions_dropped, dead_letters_deleted, channels_removed, partitions_kept
FROM pgqueue_prune(%s::interval, %s::interval, %s::integer, %s::boolean)
"""


@dataclass(frozen=True, slots=True)
class PruneCounts:
    """``partitions_kept``: past retention, but a lake does not have them, or somebody uses them just now."""

    partitions_made: int
    partitions_dropped: int
    dead_letters_deleted: int
    channels_removed: int
    partitions_kept: int


def prune(*, using: str | None = None) -> PruneCounts:
    """Keep house by the settings ARCHIVE_RETENTION, DEAD_LETTER_RETENTION, PARTITIONS_AHEAD and KEEP_UNTIL_EXPORTED.
    Safe to run from many places at once."""
    given = (
        settings.ARCHIVE_RETENTION,
        settings.DEAD_LETTER_RETENTION,
        settings.PARTITIONS_AHEAD,
        settings.KEEP_UNTIL_EXPORTED,
    )
    return PruneCounts(*call(alias(using), SQL, given)[0])
