"""Read what the page of one channel shows. Each read has a bound that does not grow with the backlog or the archive."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from django_pgqueue.admin.base import CappedCount
from django_pgqueue.admin.counts import LiveCounts, live_counts
from django_pgqueue.admin.dashboard.figures import BacklogCounts
from django_pgqueue.admin.dead_letter import with_problem
from django_pgqueue.models import Channel, DeadLetter, Message
from django_pgqueue.sql.call import call

MOST_LEASES, MOST_LETTERS = 20, 10
MOST_SEEN_LETTERS = 1_000
"""The most dead letters of the channel, and the most of all channels, among which the newest are looked for."""
MOST_PRIORITIES = 1_000
COUNTED = """
SELECT b.ready, b.leased, b.scheduled - b.blocked, b.waiting_for_limit, b.waiting_for_order_key, b.blocked, b.dead,
    NULL::timestamptz
FROM pgqueue_backlog AS b
WHERE b.queue = %s AND b.channel = %s
"""
# The index orders the ready messages of a channel by priority, so the oldest one is the first of some priority. The
# floor of the lane spares the scan the entries of messages that are gone.
OLDEST = """
WITH RECURSIVE lane AS MATERIALIZED (
    SELECT l.floor_rank, l.floor_at, l.floor_id FROM pgqueue_lane AS l
    WHERE l.channel_id = %(channel)s AND %(floor)s
    ORDER BY l.seq DESC LIMIT 1
),
start AS MATERIALIZED (
    SELECT f.floor_rank, f.floor_at, f.floor_id FROM lane AS f WHERE f.floor_at <> 'infinity'
    UNION ALL
    SELECT -32768, '-infinity', 0 WHERE NOT EXISTS (SELECT FROM lane AS f WHERE f.floor_at <> 'infinity')
),
step (id, rank, due_at) AS (
    (
        SELECT n.* FROM start AS s
        CROSS JOIN LATERAL (
            SELECT m.id, -m.priority, m.dequeue_at FROM pgqueue_message AS m
            WHERE m.channel_id = %(channel)s AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (s.floor_rank, s.floor_at, s.floor_id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1
        ) AS n
    )
    UNION ALL
    SELECT n.* FROM step AS s
    CROSS JOIN LATERAL (
        SELECT m.id, -m.priority, m.dequeue_at FROM pgqueue_message AS m
        WHERE m.channel_id = %(channel)s AND m.status = 1 AND -m.priority > s.rank
        ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1
    ) AS n
)
SELECT f.id, greatest(least(f.due_at, '9999-12-30 00:00+00'), '0001-01-02 00:00+00')
FROM (SELECT s.id, s.due_at FROM step AS s LIMIT %(most)s) AS f
ORDER BY f.due_at, f.id
LIMIT 1
"""
# After the clock was set back, the floor may be later than a lease.
LEASE_FLOOR = """
SELECT CASE WHEN l.lease_floor BETWEEN '0001-01-02 00:00+00' AND clock_timestamp() THEN l.lease_floor END
FROM pgqueue_lane AS l
WHERE l.channel_id = %s
ORDER BY l.seq DESC LIMIT 1
"""
# No index has the dead letters of a channel by time. Some of its own, together with its share of the newest of all
# channels, contain the newest ones, unless it has very many and none of them is new.
LETTERS = """
WITH own AS MATERIALIZED (
    SELECT d.id, d.dead_at FROM pgqueue_dead_letter AS d
    WHERE d.queue = %(queue)s AND d.channel = %(channel)s AND d.redriven_at IS NULL
    LIMIT %(seen)s
),
newest AS MATERIALIZED (
    SELECT n.id, n.dead_at
    FROM (
        SELECT d.id, d.dead_at, d.queue, d.channel, d.redriven_at FROM pgqueue_dead_letter AS d
        ORDER BY d.id DESC LIMIT %(seen)s
    ) AS n
    WHERE n.queue = %(queue)s AND n.channel = %(channel)s AND n.redriven_at IS NULL
),
found AS (
    SELECT o.id, o.dead_at FROM own AS o
    UNION
    SELECT n.id, n.dead_at FROM newest AS n
)
SELECT f.id, (SELECT count(*) FROM own), (SELECT count(*) FROM newest)
FROM found AS f
ORDER BY f.dead_at DESC, f.id DESC
LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class Now(LiveCounts):
    """Hold the live messages of the channel. ``oldest``: id of the ready message that has been due longest, and since
    when; None: nothing is ready."""

    oldest: tuple[int, datetime] | None


@dataclass(frozen=True, slots=True)
class Letters:
    """Hold the newest dead letters that wait. ``count``: how many wait; a CappedCount if there are more. ``newest``:
    False if newer ones may be missing."""

    rows: list[Any]
    count: int
    newest: bool


def counted(channel: Channel, *, using: str) -> BacklogCounts:
    """Return the counts of the last measurement."""
    rows = call(using, COUNTED, (channel.queue, channel.name))
    return BacklogCounts(*rows[0]) if rows else BacklogCounts(0, 0, 0, 0, 0, 0, 0, None)


def now(channel: Channel, backlog: BacklogCounts | None, *, using: str) -> Now:
    """Return the counts of the live messages of a channel by state, and since when the oldest ready one waits.

    A count that stops at its limit gives way to the one of the last measurement, ``backlog``; None: it is too old.
    """
    live = live_counts([channel.pk], using=using)[channel.pk]
    asked = {"channel": channel.pk, "most": MOST_PRIORITIES}
    oldest = call(using, OLDEST, asked | {"floor": True})
    if live.ready and not oldest:
        # A row that was changed by hand may stand before the floor.
        oldest = call(using, OLDEST, asked | {"floor": False})
    counts = {name: better(count, getattr(backlog, name, None)) for name, count in asdict(live).items()}
    return Now(**counts, oldest=oldest[0] if oldest else None)


def better(live: int, measured: int | None) -> int:
    """Return the live count, or the measured one if the live one stopped at its limit and is not higher."""
    return measured if isinstance(live, CappedCount) and measured is not None and measured >= live else live


def leases(channel: Channel, *, using: str) -> tuple[list[Message], bool]:
    """Return the leased messages, the oldest lease first, and whether there are more."""
    floor = call(using, LEASE_FLOOR, (channel.pk,))
    rows = Message.objects.using(using).filter(channel=channel.pk, status=Message.Status.LEASED)
    if floor and floor[0][0] is not None:
        rows = rows.filter(leased_at__gte=floor[0][0])
    names = ("handler", "worker", "leased_at", "lease_expires_at", "attempts", "max_attempts", "cancelled_at")
    found = list(rows.order_by("leased_at").only(*names)[: MOST_LEASES + 1])
    return found[:MOST_LEASES], len(found) > MOST_LEASES


def letters(channel: Channel, backlog: BacklogCounts | None, *, using: str) -> Letters:
    """Return the newest dead letters of the channel that were not redriven, with how many there are.

    ``backlog``: the counts of the last measurement; their number of dead letters is taken where counting stopped at
    MOST_SEEN_LETTERS. At most MOST_LETTERS are returned.
    """
    asked = {"queue": channel.queue, "channel": channel.name, "seen": MOST_SEEN_LETTERS + 1, "most": MOST_LETTERS}
    found = call(using, LETTERS, asked)
    if not found:
        return Letters([], 0, True)
    own, newest = found[0][1:]
    places = {pk: place for place, (pk, *_counts) in enumerate(found)}
    every: QuerySet[DeadLetter] = with_problem(DeadLetter.objects.using(using).filter(pk__in=list(places)))
    names = ("handler", "reason", "attempts", "max_attempts", "dead_at")
    rows = sorted(every.only(*names), key=lambda letter: places[letter.pk])
    capped = own > MOST_SEEN_LETTERS
    count = better(CappedCount(MOST_SEEN_LETTERS), backlog.dead if backlog else None) if capped else own
    return Letters(rows, count, not capped or newest >= MOST_LETTERS)


def age(at: datetime, clock: datetime) -> timedelta:
    """Return how long ago a time was, by the clock of the database; zero for a time in the future."""
    return max(timedelta(0), clock - at)
