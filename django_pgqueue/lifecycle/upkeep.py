"""Keep the queue working: sweep, tick, prune, partitions, measure, repair. Workers call these again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.arguments import checked_duration, checked_whole
from django_pgqueue.sql.call import call

SWEEP = """
SELECT retried, poisoned, cancelled, promoted, not_picked_up, resumed FROM pgqueue_sweep(%s::integer, %s::interval)
"""


@dataclass(frozen=True, slots=True)
class SweepCounts:
    """Count what a sweep changed: expired leases that were retried, became dead letters (``poisoned``) or were
    cancelled; messages that were made ready (``promoted``): their time had come, or their shared limit or order key let
    them go; channels, queues and shared limits whose pause it has ended (``resumed``), which a tick mostly does before.
    ``not_picked_up``: queues whose messages wait and that no worker serves."""

    retried: int
    poisoned: int
    cancelled: int
    promoted: int
    not_picked_up: int
    resumed: int


def sweep(limit: int = 500, *, using: str | None = None) -> SweepCounts:
    """Give back messages whose leases have expired, promote messages that are due, and move the floors.

    ``limit``: the most expired leases of one call. ``using``: database alias; default: the queue's. Many processes may
    call it at once.
    """
    return SweepCounts(*call(using, SWEEP, (checked_whole(limit, "limit", least=0), settings.WAITING_WARNING))[0])


class Tick(NamedTuple):
    """Hold what a tick did: ``promoted`` messages became ready, and ``walked`` index entries were read, most of them
    dead.
    """

    promoted: int
    walked: int


def tick(limit: int = 1000, *, using: str | None = None) -> int:
    """Make scheduled messages ready whose time has come, and move the floors of the line. Returns how many messages.

    ``limit``: the most messages of one call. ``using``: database alias; default: the queue's.
    """
    return tick_and_count(limit, using=using).promoted


def tick_and_count(limit: int = 1000, *, using: str | None = None) -> Tick:
    """Do what :func:`tick` does. Returns the counts."""
    statement = "SELECT t.promoted, pgqueue_entries_walked() FROM pgqueue_tick(%s::integer) AS t (promoted)"
    return Tick(*call(using, statement, (checked_whole(limit, "limit", least=0),))[0])


PRUNE = """
SELECT partitions_made, partitions_dropped, dead_letters_deleted, channels_removed, partitions_kept, archived_deleted
FROM pgqueue_prune(%s::interval, %s::interval, %s::integer, %s::boolean)
"""
PRUNE_QUEUES = "SELECT deleted, more FROM pgqueue_prune_queues(%s::boolean)"
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
    counts = PruneCounts(*call(using, PRUNE, given)[0])
    deleted = 0
    for _range in range(MOST_RANGES):
        [(more_deleted, more)] = call(using, PRUNE_QUEUES, (settings.KEEP_UNTIL_EXPORTED,))
        deleted += more_deleted
        if not more:
            break
    return replace(counts, archived_deleted=counts.archived_deleted + deleted) if deleted else counts


def make_partitions(*, using: str | None = None) -> int:
    """Create the partitions of the archive that are missing. Returns how many were created.

    The setting PARTITIONS_AHEAD gives the number of days ahead. Only the owner of the tables may call it. ``using``:
    database alias; default: the queue's.
    """
    made = call(using, "SELECT pgqueue_make_partitions(%s::integer)", (settings.PARTITIONS_AHEAD,))[0][0]
    return int(made)


MEASURE = "SELECT settled, dead, counted FROM pgqueue_measure(%s::interval)"


@dataclass(frozen=True, slots=True)
class MeasureCounts:
    """Count the messages that were settled since the last measurement, and those of them that died. ``counted``:
    whether the backlog was counted."""

    settled: int
    dead: int
    counted: bool


def measure(every: timedelta | None = None, *, using: str | None = None) -> MeasureCounts:
    """Update the figures of the dashboard, unless another call did so within ``every``.

    ``every``: a timedelta; default: the setting MEASURE_INTERVAL; zero measures in any case. ``using``: database alias;
    default: the queue's. Many processes may call it at once. In a transaction that has already written, the settled
    messages are left to the next measurement.
    """
    every = settings.MEASURE_INTERVAL if every is None else checked_duration(every, "every")
    return MeasureCounts(*call(using, MEASURE, (every,))[0])


@dataclass(frozen=True, slots=True)
class RepairCounts:
    """Count the repairs: counts of live messages, floors of leases, and places in the line that were wrong.

    ``places`` also counts messages that waited for their order key although they were the next ones of it.
    """

    counts: int
    lease_floors: int
    places: int


def repair(most: int = 10_000, *, using: str | None = None) -> RepairCounts:
    """Repair counts and places in the line that disagree with the messages. Returns how many of each were wrong.

    ``most``: the most channels that are examined for each kind of fault. ``using``: database alias; default: the
    queue's. It is safe while the queue works, and many processes may call it at once.
    """
    sql = "SELECT counts, lease_floors, places FROM pgqueue_repair(%s::integer)"
    return RepairCounts(*call(using, sql, (most,))[0])
