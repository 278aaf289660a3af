"""Compare counts, floors, places in the line and order keys with the messages. ``repair`` repairs all of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django_pgqueue.doctor.finding import SHOWN_NAMES, Finding, Limits, Severity, list_text, safe_name
from django_pgqueue.sql.call import call

# Each channel with a count is counted by the indexes of the states, up to the limit for all of them together.
SIZES = """
WITH later AS MATERIALIZED (
    SELECT s.channel_id, count(*) AS messages FROM (
        SELECT m.channel_id FROM pgqueue_message AS m WHERE m.status = 3 ORDER BY m.channel_id LIMIT %(most)s + 1
    ) AS s
    GROUP BY s.channel_id
),
sized AS MATERIALIZED (
    SELECT s.channel_id, s.live, sum(greatest(s.live, 1)) OVER (ORDER BY s.live, s.channel_id) AS so_far
    FROM (SELECT z.* FROM pgqueue_channel_size AS z ORDER BY z.channel_id LIMIT %(most)s) AS s
)
SELECT c.queue::text, c.name::text,
    s.live - (
        SELECT coalesce(sum(d.messages), 0) FROM pgqueue_departure AS d WHERE d.channel_id = s.channel_id) AS counted,
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = s.channel_id AND m.status = 1 LIMIT %(most)s) AS r)
    + (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = s.channel_id AND m.status = 2)
    + coalesce((SELECT l.messages FROM later AS l WHERE l.channel_id = s.channel_id), 0) AS live
FROM sized AS s
JOIN pgqueue_channel AS c ON c.id = s.channel_id AND c.max_size IS NOT NULL
WHERE s.so_far <= %(most)s AND (SELECT coalesce(sum(l.messages), 0) FROM later AS l) <= %(most)s
"""
FLOORS = """
SELECT c.queue::text, c.name::text
FROM (SELECT n.channel_id, n.lease_floor FROM pgqueue_lane AS n WHERE n.lease_floor > '-infinity' LIMIT %s) AS l
JOIN pgqueue_channel AS c ON c.id = l.channel_id
WHERE c.max_concurrency IS NOT NULL AND EXISTS (
    SELECT FROM pgqueue_message AS m WHERE m.channel_id = l.channel_id AND m.status = 2 AND m.leased_at < l.lease_floor)
"""
# A lease does not count if it began before the limit was set, or while an open transaction may not have seen the limit.
CROWDED = """
SELECT c.queue::text, c.name::text, c.max_concurrency, r.running
FROM (
    SELECT m.channel_id, count(*) AS running
    FROM (
        SELECT l.channel_id FROM pgqueue_message AS l WHERE l.status = 2 ORDER BY l.channel_id, l.leased_at LIMIT %s
    ) AS m
    GROUP BY m.channel_id
) AS r
JOIN pgqueue_channel AS c ON c.id = r.channel_id AND c.released_at IS NULL AND c.max_concurrency < r.running
WHERE c.max_concurrency < (
    SELECT count(*) FROM pgqueue_message AS m
    WHERE m.channel_id = c.id AND m.status = 2
        AND m.leased_at > coalesce(c.changed_at + interval '10 minutes', '-infinity'))
"""
# The leases of each queue with limits: all, those that began since its max_concurrency holds, and those that its gate
# does not list.
LISTED = """
SELECT c.queue::text, q.max_concurrency, count(*),
    count(*) FILTER (WHERE l.leased_at > q.changed_at + interval '10 minutes') > q.max_concurrency,
    count(*) FILTER (WHERE g.seen_at = q.changed_at AND l.id <> ALL (g.held || b.held))
FROM (
    SELECT m.id, m.channel_id, m.leased_at FROM pgqueue_message AS m
    WHERE m.status = 2 ORDER BY m.channel_id, m.leased_at LIMIT %s
) AS l
JOIN pgqueue_channel AS c ON c.id = l.channel_id
JOIN pgqueue_queue AS q ON q.name = c.queue AND (q.max_concurrency IS NOT NULL OR q.max_share IS NOT NULL)
LEFT JOIN LATERAL (
    SELECT s.held, s.seen_at FROM pgqueue_gate AS s WHERE s.queue = q.name ORDER BY s.seq DESC LIMIT 1
) AS g ON true
CROSS JOIN LATERAL (
    SELECT ARRAY(SELECT unnest(o.held) FROM pgqueue_gate_side AS o WHERE o.queue = q.name) AS held
) AS b
GROUP BY c.queue, q.max_concurrency
ORDER BY c.queue
"""
MISPLACED = """
SELECT p.queue, p.channel, p.problem, clock_timestamp() - greatest(p.oldest_at, '0002-01-01 00:00+00')
FROM pgqueue_find_unreachable(%s) AS p
WHERE p.oldest_at < clock_timestamp() - interval '10 seconds'
ORDER BY p.oldest_at
"""
REPAIR = "Run manage.py pgqueue doctor --fix, or SELECT * FROM pgqueue_repair(): both repair it."


def examine_counters(using: str, limits: Limits) -> Iterator[Finding]:
    """Report what the queue keeps beside its messages where it disagrees with them."""
    wrong = [row for row in call(using, SIZES, {"most": limits.most}) if row[2] != row[3]]
    if wrong:
        yield wrong_counts(wrong)
    if floors := call(using, FLOORS, (limits.most,)):
        yield lost_leases(floors)
    if crowded := call(using, CROWDED, (limits.most,)):
        yield over_limit(crowded)
    queues = call(using, LISTED, (limits.most,))
    if crowded := [row for row in queues if row[3]]:
        yield queues_over_limit(crowded)
    if unlisted := [row for row in queues if row[4]]:
        yield unlisted_leases(unlisted)
    found = call(using, MISPLACED, (limits.most,))
    if hidden := [row for row in found if row[2] == "hidden"]:
        yield out_of_line(hidden)
    if parked := [row for row in found if row[2] == "parked"]:
        yield parked_for_nothing(parked)
    if unreleased := [row for row in found if row[2] == "unreleased"]:
        yield unreleased_keys(unreleased)


def places(rows: list[tuple[Any, ...]]) -> list[str]:
    """Return the channels of the rows as ``queue/channel``."""
    return [f"{queue}/{channel}" for queue, channel, *_ in rows]


def wrong_counts(rows: list[tuple[Any, ...]]) -> Finding:
    """Report channels whose count of live messages is wrong."""
    _, channel, counted, live = rows[0]
    return Finding(
        "count_wrong",
        Severity.WARNING,
        f"The count of live messages is wrong on {list_text(places(rows))} (max_size): {safe_name(channel)} is "
        f"counted as {counted} and has {live}. It is full too early or too late.",
        REPAIR,
        {
            "channels": len(rows),
            "shown": [
                {"queue": queue, "channel": channel, "counted": int(counted), "live": int(live)}
                for queue, channel, counted, live in rows[:SHOWN_NAMES]
            ],
        },
    )


def lost_leases(rows: list[tuple[Any, ...]]) -> Finding:
    """Report channels whose lease floor leaves leases out of the count."""
    return Finding(
        "lease_floor_wrong",
        Severity.CRITICAL,
        f"Not all leases are counted on {list_text(places(rows))}: more than max_concurrency may run.",
        REPAIR,
        {"channels": len(rows), "shown": first_channels(rows)},
    )


def over_limit(rows: list[tuple[Any, ...]]) -> Finding:
    """Report channels with more leases than max_concurrency."""
    texts = [f"{queue}/{channel} ({running} of {most})" for queue, channel, most, running in rows]
    return Finding(
        "over_limit",
        Severity.CRITICAL,
        f"More messages are leased than max_concurrency allows: {list_text(texts)}.",
        f"The surplus is gone when they have ended. Look for rows that were changed by hand. {REPAIR}",
        {"channels": len(rows), "shown": first_channels(rows)},
    )


def queues_over_limit(rows: list[tuple[Any, ...]]) -> Finding:
    """Report queues with more leases than max_concurrency."""
    texts = [f"{queue} ({running} of {most})" for queue, most, running, *_ in rows]
    return Finding(
        "queue_over_limit",
        Severity.CRITICAL,
        f"More messages are leased than max_concurrency of the queue allows: {list_text(texts)}.",
        f"The surplus is gone when they have ended. Look for rows that were changed by hand. {REPAIR}",
        {"queues": [queue for queue, *_ in rows[:SHOWN_NAMES]]},
    )


def unlisted_leases(rows: list[tuple[Any, ...]]) -> Finding:
    """Report queues whose gate leaves leases out of the count."""
    names = [queue for queue, *_ in rows]
    return Finding(
        "lease_list_wrong",
        Severity.CRITICAL,
        f"Not all leases of the queue are counted on {list_text(names)}: more than its limits allow may run.",
        REPAIR,
        {"queues": names[:SHOWN_NAMES]},
    )


def out_of_line(rows: list[tuple[Any, ...]]) -> Finding:
    """Report channels with ready messages that no line leads to."""
    return Finding(
        "out_of_line",
        Severity.CRITICAL,
        f"The ready messages of {list_text(places(rows))} are in no line: no dequeue finds them, and they wait for "
        "ever.",
        REPAIR,
        {"channels": len(rows), "shown": first_channels(rows), "seconds": longest(rows)},
    )


def parked_for_nothing(rows: list[tuple[Any, ...]]) -> Finding:
    """Report channels that are parked although their limit is not reached."""
    return Finding(
        "parked",
        Severity.WARNING,
        f"A limit that is not reached blocks {list_text(places(rows))}. The next prune repairs it, within "
        "PRUNE_INTERVAL.",
        REPAIR,
        {"channels": len(rows), "shown": first_channels(rows), "seconds": longest(rows)},
    )


def unreleased_keys(rows: list[tuple[Any, ...]]) -> Finding:
    """Report messages that wait for their order key although they are the next ones of it."""
    channels = list(dict.fromkeys(row[:2] for row in rows))
    return Finding(
        "order_key_unreleased",
        Severity.CRITICAL,
        f"{len(rows)} message(s) of {list_text(places(channels))} wait for one before them of their order key, and "
        "there is none: they and those behind them wait for ever.",
        f"Messages were deleted by hand; discard or purge is the way to remove them. {REPAIR}",
        {"messages": len(rows), "shown": first_channels(channels), "seconds": longest(rows)},
    )


def first_channels(rows: list[tuple[Any, ...]]) -> list[dict[str, str]]:
    """Return the first channels as JSON values."""
    return [{"queue": queue, "channel": channel} for queue, channel, *_ in rows[:SHOWN_NAMES]]


def longest(rows: list[tuple[Any, ...]]) -> float:
    """Return the longest time, in seconds."""
    return max((age for *_, age in rows), default=timedelta(0)).total_seconds()
