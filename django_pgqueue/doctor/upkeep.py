"""Examine what maintenance and operators leave behind: workers, leases, schedules, counts, dead letters, days."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from django_pgqueue.checks.rules import CRITICAL, NOTE, SHOWN_NAMES, WARNING, Limits, Row, Rule, safe_name
from django_pgqueue.checks.server import DAYS
from django_pgqueue.sql.call import call

# A worker that was silent for longer than an hour has lost its messages to others long ago; the dashboard tells it
# apart, too.
WORKERS = """
SELECT w.name AS worker, w.hostname, w.pid, w.heartbeat_at AS since, a.seconds,
    CASE WHEN a.seconds < 3600 THEN 1 ELSE 0 END AS severity
FROM pgqueue_worker AS w
CROSS JOIN LATERAL (SELECT extract(epoch FROM clock_timestamp() - w.heartbeat_at) AS seconds) AS a
WHERE w.heartbeat_at < clock_timestamp() - %(lease)s::interval
ORDER BY w.heartbeat_at
LIMIT %(most)s
"""
PAUSED = """
SELECT count(*) AS workers, array_agg(w.name ORDER BY w.name) AS shown
FROM pgqueue_worker AS w WHERE w.paused_at IS NOT NULL HAVING count(*) > 0
"""
# Below 1,000 messages it may be one breaker that has opened, and below a fifth of the messages it costs little.
GIVEN_BACK = """
SELECT w.name AS worker, t.given_back AS messages, t.settled
FROM pgqueue_worker AS w
CROSS JOIN LATERAL (
    SELECT coalesce(sum(e.value::numeric) FILTER (WHERE e.key = 'given_back'), 0)::bigint AS given_back,
        coalesce(sum(e.value::numeric) FILTER (WHERE e.key NOT IN ('given_back', 'lease_lost')), 0)::bigint AS settled
    FROM jsonb_each(CASE jsonb_typeof(w.totals) WHEN 'object' THEN w.totals ELSE '{}' END) AS e
    WHERE jsonb_typeof(e.value) = 'number'
) AS t
WHERE t.given_back >= 1000 AND t.given_back > t.settled * 0.2
ORDER BY t.given_back DESC
LIMIT %(most)s
"""
UNSWEPT = """
SELECT extract(epoch FROM clock_timestamp() - x.first) AS seconds
FROM (SELECT min(m.lease_expires_at) AS first FROM pgqueue_message AS m
    WHERE m.lease_expires_at < clock_timestamp() - %(unattended)s::interval) AS x
WHERE x.first IS NOT NULL
"""
TICKED = """
SELECT extract(epoch FROM clock_timestamp() - f.ticked_at) AS seconds
FROM (SELECT f.ticked_at FROM pgqueue_floor AS f ORDER BY f.id DESC LIMIT 1) AS f
WHERE f.ticked_at < clock_timestamp() - 5 * %(unattended)s::interval AND EXISTS (SELECT FROM pgqueue_message)
"""
LATE = """
SELECT count(*) AS schedules, array_agg(s.name ORDER BY s.next_fire_at) AS shown,
    extract(epoch FROM clock_timestamp() - min(s.next_fire_at)) AS seconds
FROM pgqueue_schedule AS s
WHERE s.enabled AND s.removed_at IS NULL AND s.next_fire_at < clock_timestamp() - %(unattended)s::interval
HAVING count(*) > 0
"""
FAILING = """
SELECT count(*) AS schedules, array_agg(s.name ORDER BY s.name) AS shown FROM pgqueue_schedule AS s
WHERE s.enabled AND s.removed_at IS NULL AND s.last_error <> '' HAVING count(*) > 0
"""
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
),
found AS (
    SELECT c.queue, c.name AS channel, (s.live - (
            SELECT coalesce(sum(d.messages), 0) FROM pgqueue_departure AS d WHERE d.channel_id = s.channel_id
        ))::bigint AS counted,
        ((SELECT count(*) FROM (
            SELECT FROM pgqueue_message AS m WHERE m.channel_id = s.channel_id AND m.status = 1 LIMIT %(most)s) AS r)
        + (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = s.channel_id AND m.status = 2)
        + coalesce((SELECT l.messages FROM later AS l WHERE l.channel_id = s.channel_id), 0))::bigint AS live
    FROM sized AS s
    JOIN pgqueue_channel AS c ON c.id = s.channel_id AND c.max_size IS NOT NULL
    WHERE s.so_far <= %(most)s AND (SELECT coalesce(sum(l.messages), 0) FROM later AS l) <= %(most)s
)
SELECT count(*) AS channels, array_agg(f.queue || '/' || f.channel) AS names, jsonb_agg(to_jsonb(f)) AS shown
FROM found AS f WHERE f.counted <> f.live HAVING count(*) > 0
"""
FLOORS = """
SELECT count(*) AS channels, array_agg(c.queue || '/' || c.name) AS names,
    jsonb_agg(jsonb_build_object('queue', c.queue, 'channel', c.name)) AS shown
FROM (SELECT n.channel_id, n.lease_floor FROM pgqueue_lane AS n WHERE n.lease_floor > '-infinity' LIMIT %(most)s) AS l
JOIN pgqueue_channel AS c ON c.id = l.channel_id
WHERE c.max_concurrency IS NOT NULL AND EXISTS (
    SELECT FROM pgqueue_message AS m WHERE m.channel_id = l.channel_id AND m.status = 2 AND m.leased_at < l.lease_floor)
HAVING count(*) > 0
"""
# A lease does not count if it began before the limit was set, or while an open transaction may not have seen the limit.
CROWDED = """
SELECT count(*) AS channels, array_agg(format('%%s/%%s (%%s of %%s)', c.queue, c.name, r.running, c.max_concurrency))
    AS names, jsonb_agg(jsonb_build_object('queue', c.queue, 'channel', c.name)) AS shown
FROM (
    SELECT m.channel_id, count(*) AS running
    FROM (
        SELECT l.channel_id FROM pgqueue_message AS l
        WHERE l.status = 2 ORDER BY l.channel_id, l.leased_at LIMIT %(most)s
    ) AS m
    GROUP BY m.channel_id
) AS r
JOIN pgqueue_channel AS c ON c.id = r.channel_id AND c.released_at IS NULL AND c.max_concurrency < r.running
WHERE c.max_concurrency < (
    SELECT count(*) FROM pgqueue_message AS m
    WHERE m.channel_id = c.id AND m.status = 2
        AND m.leased_at > coalesce(c.changed_at + interval '10 minutes', '-infinity'))
HAVING count(*) > 0
"""
# The leases of each queue with limits: all, those that began since its max_concurrency holds, and those that its gate
# does not list.
LISTED = """
WITH leases AS (
    SELECT q.name AS queue, q.max_concurrency, count(*) AS running,
        count(*) FILTER (WHERE l.leased_at > q.changed_at + interval '10 minutes') AS counted,
        count(*) FILTER (WHERE g.seen_at = q.changed_at AND l.id <> ALL (g.held || b.held)) AS unlisted
    FROM (
        SELECT m.id, m.channel_id, m.leased_at FROM pgqueue_message AS m
        WHERE m.status = 2 ORDER BY m.channel_id, m.leased_at LIMIT %(most)s
    ) AS l
    JOIN pgqueue_channel AS c ON c.id = l.channel_id
    JOIN pgqueue_queue AS q ON q.name = c.queue AND (q.max_concurrency IS NOT NULL OR q.max_share IS NOT NULL)
    LEFT JOIN LATERAL (
        SELECT s.held, s.seen_at FROM pgqueue_gate AS s WHERE s.queue = q.name ORDER BY s.seq DESC LIMIT 1
    ) AS g ON true
    CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT unnest(o.held) FROM pgqueue_gate_side AS o WHERE o.queue = q.name) AS held
    ) AS b
    GROUP BY q.name, q.max_concurrency
)
SELECT r.code, array_agg(l.queue ORDER BY l.queue) AS queues, array_agg(r.name ORDER BY l.queue) AS names
FROM leases AS l
CROSS JOIN LATERAL (VALUES
    ('queue_over_limit', l.counted > l.max_concurrency,
        format('%%s (%%s of %%s)', l.queue, l.running, l.max_concurrency)),
    ('lease_list_wrong', l.unlisted > 0, l.queue)
) AS r (code, is_found, name)
WHERE r.is_found
GROUP BY r.code
"""
# An order key has a row for each of its messages.
MISPLACED = """
SELECT CASE g.problem WHEN 'hidden' THEN 'out_of_line' WHEN 'unreleased' THEN 'order_key_unreleased' ELSE 'parked' END
    AS code, sum(g.messages)::bigint AS messages, count(*) AS channels, max(g.seconds) AS seconds,
    array_agg(g.queue || '/' || g.channel ORDER BY g.seconds DESC) AS names,
    jsonb_agg(jsonb_build_object('queue', g.queue, 'channel', g.channel) ORDER BY g.seconds DESC) AS shown
FROM (
    SELECT p.queue, p.channel, p.problem, count(*) AS messages,
        extract(epoch FROM clock_timestamp() - greatest(min(p.oldest_at), '0002-01-01 00:00+00')) AS seconds
    FROM pgqueue_find_unreachable(%(most)s) AS p
    WHERE p.oldest_at < clock_timestamp() - interval '10 seconds'
    GROUP BY p.queue, p.channel, p.problem
) AS g
GROUP BY g.problem
"""
# The newest ones, whose ids are the highest. An operator discards a message on purpose. Times may be infinite.
DEAD = """
WITH newest AS MATERIALIZED (
    SELECT d.id, d.queue, d.handler, d.reason, d.redriven_at, d.dead_at FROM pgqueue_dead_letter AS d
    ORDER BY d.id DESC
    LIMIT %(most)s
),
dead AS (
    SELECT n.handler, n.reason, count(*) AS letters, array_agg(DISTINCT n.queue ORDER BY n.queue) AS queues,
        max(n.id) AS newest, extract(epoch FROM clock_timestamp()) - extract(epoch FROM max(n.dead_at)) AS seconds
    FROM newest AS n
    WHERE n.redriven_at IS NULL AND n.reason <> 'discarded'
    GROUP BY n.handler, n.reason
    ORDER BY letters DESC, n.handler, n.reason
    LIMIT %(shown)s
)
SELECT g.handler, g.reason, g.letters, g.queues::text[], greatest(0, least(g.seconds, 1e9))::float,
    (SELECT count(*) FROM newest) < %(most)s, d.errors -> -1 ->> 'type', d.errors -> -1 ->> 'message'
FROM dead AS g
JOIN pgqueue_dead_letter AS d ON d.id = g.newest
ORDER BY g.letters DESC, g.handler, g.reason
"""
MOST_LINES, MOST_CHARACTERS = 3, 300
"""How much of an error is shown."""
LOST = """
SELECT l.name, sum(d.value::bigint)::bigint, array_agg(d.key ORDER BY d.key)
FROM pgqueue_lake AS l
CROSS JOIN jsonb_each_text(l.lost) AS d
GROUP BY l.name
ORDER BY l.name
LIMIT %s
"""


def dead_letters(using: str, limits: Limits) -> Iterator[Row]:
    """Yield dead letters that were not redriven: a row for each handler and reason, the SHOWN_NAMES largest. Those of
    the last hour are a warning, older ones a note."""
    rows = call(using, DEAD, {"most": limits.most, "shown": SHOWN_NAMES})
    for handler, reason, letters, queues, seconds, complete, kind, text in rows:
        error = error_text(kind, text)
        yield {
            "handler": handler, "reason": reason, "letters": letters, "queues": queues, "seconds": seconds,
            "complete": complete, "error": error, "severity": WARNING if seconds < 3600 else NOTE,
            "at_least": "" if complete else "At least ", "its_error": f" Its error: {error}" if error else "",
            "chosen": safe_name(f"--handler {shlex.quote(handler)} --reason {shlex.quote(reason)}"),
        }  # fmt: skip


def error_text(kind: str | None, text: str | None) -> str:
    """Return type and first lines of the error of the newest dead letter, in one line; empty if it has none."""
    if not kind:
        return ""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()][:MOST_LINES]
    shown = safe_name(f"{kind}: {' / '.join(lines)}" if lines else kind)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[:MOST_CHARACTERS]} …"


def lost_days(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the lakes that have lost messages. The table belongs to the pipeline, which a project may do without."""
    [(has_lakes,)] = call(using, "SELECT to_regclass('pgqueue_lake') IS NOT NULL")
    lakes = call(using, LOST, (limits.most,)) if has_lakes else []
    if lakes:
        problems = [
            f"{safe_name(name)} lacks {messages:,} message{'s' * (messages != 1)} ("
            f"{days[0] if len(days) == 1 else f'{len(days):,} days, {days[0]} to {days[-1]}'})"
            for name, messages, days in lakes[:SHOWN_NAMES]
        ]
        yield {
            "lakes": len(lakes),
            "shown": [{"lake": name, "messages": messages, "days": days} for name, messages, days in lakes],
            "problems": "; ".join(problems),
            "more": f"; and {len(lakes) - SHOWN_NAMES} more lakes" if len(lakes) > SHOWN_NAMES else "",
        }


SWEEP = "Start a worker, which runs maintenance; in a project without workers, run manage.py sweepqueue by cron."
REPAIR = "Run manage.py pgqueue doctor --fix, or SELECT * FROM pgqueue_repair(): both repair it."
SURPLUS = f"The surplus is gone when they have ended. Look for rows that were changed by hand. {REPAIR}"
# fmt: off
HOUSEKEEPING = (
    Rule("worker_silent", WARNING, WORKERS, "worker hostname pid since seconds",
        "The worker {worker} (process {pid} on {hostname}) sent its last heartbeat {seconds:age} ago: it died, or "
        "cannot reach the database. Its messages go to other workers.",
        "Look at its host and its log. Its row is deleted after a day."),
    Rule("worker_paused", NOTE, PAUSED, "workers shown",
        "{workers} worker(s) are paused: {shown}.",
        "Resume them with manage.py pgqueue resume worker NAME, or in the admin."),
    Rule("given_back", WARNING, GIVEN_BACK, "worker messages settled",
        "The worker {worker} gave {messages} messages back that it had leased and not started, and settled {settled}. "
        "Each of them used a token of its rates, and counted for the limits and the share of its channel.",
        "Serve handlers with a concurrency, and functions and async handlers, by workers of their own: another queue "
        "for each kind. If a breaker opens again and again, mend its cause."),
    Rule("lease_expired", CRITICAL, UNSWEPT, "seconds",
        "A lease expired {seconds:age} ago and was not swept: messages of dead workers are not delivered again.",
        SWEEP),
    Rule("no_tick", WARNING, TICKED, "seconds",
        "No worker has run maintenance for {seconds:age}: scheduled messages are late, and dequeues get slower.",
        SWEEP),
    Rule("schedule_late", WARNING, LATE, "schedules shown seconds",
        "{schedules} schedule(s) should have fired, the first {seconds:age} ago: {shown}.",
        "Workers fire them: start one, or look in its log for the event schedule_failed."),
    Rule("schedule_failing", WARNING, FAILING, "schedules shown",  # their errors are left out, as everywhere here
        "{schedules} schedule(s) failed at their last tick: {shown}.",
        "The page of schedules in the admin says why, and so does SELECT name, last_error FROM pgqueue_schedule WHERE "
        "last_error <> ''. Repair the cause; manage.py pgqueue run schedule NAME shows whether that helped."),
)
# What the queue keeps beside its messages, where it disagrees with them. pgqueue_repair repairs all of it.
COUNTERS = (
    Rule("count_wrong", WARNING, SIZES, "channels shown",
        "The count of live messages is wrong on {names} (max_size): {shown[0][channel]} is counted as "
        "{shown[0][counted]} and has {shown[0][live]}. It is full too early or too late.", REPAIR),
    Rule("lease_floor_wrong", CRITICAL, FLOORS, "channels shown",
        "Not all leases are counted on {names}: more than max_concurrency may run.", REPAIR),
    Rule("over_limit", CRITICAL, CROWDED, "channels shown",
        "More messages are leased than max_concurrency allows: {names}.", SURPLUS),
    Rule("queue_over_limit", CRITICAL, LISTED, "queues",
        "More messages are leased than max_concurrency of the queue allows: {names}.", SURPLUS),
    Rule("lease_list_wrong", CRITICAL, LISTED, "queues",
        "Not all leases of the queue are counted on {names}: more than its limits allow may run.", REPAIR),
    Rule("out_of_line", CRITICAL, MISPLACED, "channels shown seconds",
        "The ready messages of {names} are in no line: no dequeue finds them, and they wait for ever.", REPAIR),
    Rule("parked", WARNING, MISPLACED, "channels shown seconds",
        "A limit that is not reached blocks {names}. The next prune repairs it, within PRUNE_INTERVAL.", REPAIR),
    Rule("order_key_unreleased", CRITICAL, MISPLACED, "messages shown seconds",
        "{messages} message(s) of {names} wait for one before them of their order key, and there is none: they and "
        "those behind them wait for ever.",
        f"Messages were deleted by hand; discard or purge is the way to remove them. {REPAIR}"),
)
DEAD_LETTERS = (
    Rule("dead_letters", WARNING, dead_letters, "handler reason letters complete seconds queues error",
        "{at_least:raw}{letters:,} message(s) of the handler {handler} are dead letters ({reason}), the last died "
        "{seconds:age} ago; queues: {queues}.{its_error:raw}",
        "Mend the cause, and then run them again: manage.py pgqueue redrive dead {chosen:raw}. With --dry-run it only "
        "counts them."),
)
ARCHIVE = (
    Rule("partitions_behind", WARNING, DAYS, "missing",
        "The archive has no partition for {days} of the next {partitions} days, the first {day}: no worker prunes, "
        "or a long transaction blocks the prune.",
        "Start a worker, or run manage.py sweepqueue or SELECT pgqueue_prune(): each makes the partitions."),
)
LAKES = (
    Rule("lake_lost", WARNING, lost_days, "lakes shown",
        "Retention dropped messages before a lake had them: {problems:raw}{more:raw}.",
        "Only a backup of the database still has them. Set KEEP_UNTIL_EXPORTED, or run pgqueue lake export more often "
        "than retention drops partitions. Then forget the loss as the owner of the tables: UPDATE pgqueue_lake SET "
        "lost = '{{}}' WHERE name = …; if the lake is not used any more, delete its row."),
)
# fmt: on
