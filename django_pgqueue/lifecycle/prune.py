"""prune: create partitions ahead, and drop what retention does not keep and channels that were released."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = """
SELECT partitions_made, partitions_dropped, dead_letters_deleted, channels_removed, partitions_kept, archived_deleted
FROM pgqueue_prune(%s::interval, %s::interval, %s::integer, %s::boolean)
"""
QUEUES = "SELECT deleted, more FROM pgqueue_prune_queues(%s::boolean)"
MOST_RANGES = 1_000
"""The most ranges of one call, 16 GB: the next call goes on."""


@dataclass(frozen=True, slots=True)
class PruneCounts:
    """Count what a prune changed. ``partitions_kept``: partitions past retention that stay, because a lake lacks them
    or another transaction uses them. ``archived_deleted``: archived messages past the retention of their queue."""

    partitions_made: int
    partitions_dropped: int
    dead_letters_deleted: int
    channels_removed: int
    partitions_kept: int
    archived_deleted: int = 0


def prune(*, using: str | None = None) -> PruneCounts:
    """Create partitions ahead and drop old ones, delete old dead letters, and remove released channels.

    It follows the settings ARCHIVE_RETENTION, DEAD_LETTER_RETENTION, PARTITIONS_AHEAD and KEEP_UNTIL_EXPORTED, and the
    retention of each queue, whose archived messages it deletes in many short transactions.
    ``using``: database alias; default: the queue's. Many processes may call it at once.
    """
    given = (
        settings.ARCHIVE_RETENTION,
        settings.DEAD_LETTER_RETENTION,
        settings.PARTITIONS_AHEAD,
        settings.KEEP_UNTIL_EXPORTED,
    )
    database = alias(using)
    counts = PruneCounts(*call(database, SQL, given)[0])
    deleted = 0
    for _range in range(MOST_RANGES):
        [(more_deleted, more)] = call(database, QUEUES, (settings.KEEP_UNTIL_EXPORTED,))
        deleted += more_deleted
        if not more:
            break
    return replace(counts, archived_deleted=counts.archived_deleted + deleted) if deleted else counts
