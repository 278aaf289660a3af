"""prune: create partitions ahead, and drop what retention does not keep and channels that were released."""

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
    """Count what a prune changed. ``partitions_kept``: partitions past retention that stay, because a lake lacks them
    or another transaction uses them."""

    partitions_made: int
    partitions_dropped: int
    dead_letters_deleted: int
    channels_removed: int
    partitions_kept: int


def prune(*, using: str | None = None) -> PruneCounts:
    """Create partitions ahead and drop old ones, delete old dead letters, and remove released channels.

    It follows the settings ARCHIVE_RETENTION, DEAD_LETTER_RETENTION, PARTITIONS_AHEAD and KEEP_UNTIL_EXPORTED.
    ``using``: database alias; default: the queue's. Many processes may call it at once.
    """
    given = (
        settings.ARCHIVE_RETENTION,
        settings.DEAD_LETTER_RETENTION,
        settings.PARTITIONS_AHEAD,
        settings.KEEP_UNTIL_EXPORTED,
    )
    return PruneCounts(*call(alias(using), SQL, given)[0])
