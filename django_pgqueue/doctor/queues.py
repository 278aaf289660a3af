"""Examine what messages wait for: workers, handlers, pauses, shared limits, breakers, or a channel that is gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from django_pgqueue import handlers
from django_pgqueue.checks.rules import CRITICAL, NOTE, WARNING, Limits, Row, Rule
from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.breakers import MOST_WAITING, breakers
from django_pgqueue.lifecycle.health import QueueHealth, health
from django_pgqueue.lifecycle.limit_health import limit_health
from django_pgqueue.limits import UNDECLARED, handler_of_limit
from django_pgqueue.sql.call import call

# A released channel drains also when it is paused.
WAITING = """
SELECT w.queue, w.channel, extract(epoch FROM clock_timestamp() - w.oldest_at)::float,
    CASE WHEN q.paused_at IS NOT NULL THEN 'queue' WHEN p.paused_at IS NOT NULL THEN 'channel' ELSE '' END,
    CASE WHEN q.paused_at IS NOT NULL THEN q.paused_until ELSE p.paused_until END IS NULL,
    w.complete,
    (SELECT m.id FROM pgqueue_lane AS l JOIN pgqueue_message AS m ON m.id = l.current_id
    WHERE c.ordered AND l.channel_id = c.id
        AND (m.status = 1 AND m.held_until > clock_timestamp() OR m.waits_for >= 0))
FROM pgqueue_waiting(%s) AS w
JOIN pgqueue_channel AS c ON c.id = w.channel_id
LEFT JOIN pgqueue_channel AS p ON p.id = c.id AND p.released_at IS NULL
LEFT JOIN pgqueue_queue AS q ON q.name = c.queue
WHERE w.oldest_at < clock_timestamp() - %s::interval
ORDER BY w.oldest_at
"""
LEASED = """
SELECT EXISTS (
    SELECT FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
    WHERE m.lease_expires_at > clock_timestamp() AND c.queue = %s)
"""
# Reads the oldest messages: a message that is never delivered becomes one of them.
ORPHANS = """
SELECT sum(g.messages)::bigint AS messages, count(*) AS channels,
    array_agg(g.channel_id ORDER BY g.channel_id) AS shown,
    array_to_string((array_agg(g.channel_id ORDER BY g.channel_id))[:10], ', ')
    || CASE WHEN count(*) > 10 THEN ', …' ELSE '' END AS ids
FROM (
    SELECT m.channel_id, count(*) AS messages
    FROM (SELECT o.channel_id FROM pgqueue_message AS o ORDER BY o.id LIMIT %(most)s) AS m
    WHERE NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = m.channel_id)
    GROUP BY m.channel_id
) AS g
HAVING count(*) > 0
"""
# A process that is starting has not said what it has, and takes nothing yet; an older release never says it, and may
# have any.
UNKNOWN = """
WITH live AS (
    SELECT w.queues, w.handlers FROM pgqueue_worker AS w
    WHERE w.heartbeat_at >= clock_timestamp() - %s::interval AND w.state <> 'starting'
),
waiting AS (
    SELECT c.queue, m.handler, count(*) AS messages, min(m.created_at) AS oldest_at
    FROM (
        SELECT m.channel_id, m.handler, m.created_at FROM pgqueue_message AS m
        WHERE m.status <> 2
        ORDER BY m.id
        LIMIT %s
    ) AS m
    JOIN pgqueue_channel AS c ON c.id = m.channel_id
    GROUP BY c.queue, m.handler
)
SELECT n.queue, n.handler, n.messages, extract(epoch FROM clock_timestamp() - n.oldest_at)::float,
    EXISTS (SELECT FROM live AS l WHERE l.queues ? n.queue)
FROM waiting AS n
WHERE NOT EXISTS (SELECT FROM live AS l WHERE l.queues ? n.queue AND (l.handlers IS NULL OR l.handlers ? n.handler))
ORDER BY n.queue, n.oldest_at
"""
SCHEDULES = """
SELECT s.name FROM pgqueue_schedule AS s
WHERE s.queue = %s AND s.handler = ANY (%s) AND s.enabled AND s.removed_at IS NULL ORDER BY s.name
"""
# served: a message waits in a channel that nothing else holds up. capacity: the highest cost that fits; null: any.
DETAILS = """
SELECT l.name::text, l.pause_reason, l.paused_until IS NULL, coalesce(w.cost, 1), coalesce(w.served, false),
    least(l.max_cost, CASE WHEN l.release_interval IS NOT NULL THEN l.release_burst END)
FROM pgqueue_limit AS l
CROSS JOIN LATERAL (
    SELECT max(coalesce(n.cost, 1)) AS cost,
        bool_or(c.paused_at IS NULL AND c.max_concurrency IS NULL AND c.release_interval IS NULL
            AND n.dequeue_at < clock_timestamp() - %s::interval
            AND NOT EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = c.queue AND q.paused_at IS NOT NULL)
        ) AS served
    FROM (SELECT m.cost, m.channel_id, m.dequeue_at FROM pgqueue_message AS m WHERE m.waits_for = l.id LIMIT %s) AS n
    LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id
) AS w
"""
# A worker of an older release does not report its handlers; it may have any.
HANDLERS = """
SELECT l.name::text, h.handler::text
FROM pgqueue_limit_handler AS h
JOIN pgqueue_limit AS l ON l.id = h.limit_id
WHERE NOT h.breaker AND NOT EXISTS (
    SELECT FROM pgqueue_worker AS w
    WHERE w.heartbeat_at >= clock_timestamp() - %s::interval AND (w.handlers IS NULL OR w.handlers ? h.handler))
ORDER BY l.name, h.handler
LIMIT %s
"""


class WaitingChannel(NamedTuple):
    """Hold a channel that waits. ``paused``: what is paused, "queue", "channel" or neither; ``is_endless``: the pause
    has no end. ``held_by``: the message that holds an ordered channel."""

    queue: str
    channel: str
    seconds: float
    paused: str
    is_endless: bool
    complete: bool
    held_by: int | None


def waiting(using: str, limits: Limits) -> Iterator[Row]:
    """Yield queues without workers, and queues whose channels wait for long: paused, held by a message, or neither."""
    unserved = {row.queue for row in health(most=limits.most, using=using) if is_unserved(row, using)}
    yield from ({"code": "no_worker", "queue": queue} for queue in sorted(unserved))
    queues: dict[tuple[str, str, bool], list[WaitingChannel]] = defaultdict(list)
    for row in map(WaitingChannel._make, call(using, WAITING, (limits.most, limits.longest_wait))):
        queues[row.queue, row.paused, not row.paused and row.held_by is not None].append(row)
    for (queue, paused, is_held), rows in sorted(queues.items()):
        if not paused and not is_held and queue in unserved:
            continue
        is_endless = any(row.is_endless for row in rows)
        yield {
            "code": f"paused:{paused}" if paused else "held" if is_held else "waiting",
            "queue": queue, "channels": len(rows), "complete": rows[0].complete, "paused": paused,
            "shown": [{"channel": row.channel, "seconds": row.seconds} for row in rows],
            "count": str(len(rows)) if rows[0].complete else f"at least {len(rows)}",
            "names": [f"{row.channel} (message {row.held_by})" if is_held else row.channel for row in rows],
            "seconds": rows[0].seconds, "first": rows[0].channel, "endless": is_endless,
            "severity": WARNING if is_endless or not paused else NOTE,
        }  # fmt: skip


def is_unserved(row: QueueHealth, using: str) -> bool:
    """Return whether messages of the queue are ready, or wait for a limit, and no worker takes them.

    A lease that has not expired may be that of a consumer by plain SQL, which sends no heartbeat of a worker.
    """
    if row.paused or row.workers > 0 or row.ready + row.waiting_for_limit == 0:
        return False
    return row.leased == 0 or not call(using, LEASED, (row.queue,))[0][0]


def missing_handlers(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the queues with messages whose handler no worker has; without workers, those that no installed app has.

    Schedules enqueue such messages again and again when the module that declared them is gone.
    """
    queues: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for row in call(using, UNKNOWN, (settings.LEASE, limits.most)):
        if row[4] or handlers.find(row[1]) is None:
            queues["unknown_handler" if row[4] else "handler_missing", row[0]].append(row)
    for (code, queue), rows in sorted(queues.items(), reverse=True):
        names = [row[1] for row in rows]
        schedules = [name for (name,) in call(using, SCHEDULES, (queue, names))]
        yield {
            "code": f"{code}:scheduled" if schedules else code, "queue": queue, "schedules": schedules,
            "messages": sum(row[2] for row in rows), "seconds": max(row[3] for row in rows),
            "handlers": len(rows), "shown": names, "grace": settings.UNKNOWN_HANDLER_GRACE.total_seconds(),
        }  # fmt: skip


def shared_limits(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the shared limits that hold messages up, and those of handlers that do not exist."""
    rows = [row for row in limit_health(most=limits.most, using=using) if row.kind == "shared" and row.waiting]
    details = {name: rest for name, *rest in call(using, DETAILS, (limits.unattended, limits.most))} if rows else {}
    for row in rows:
        if row.name not in details:
            continue
        pause_reason, is_endless, cost, is_served, capacity = details[row.name]
        age, handler = row.oldest_age or timedelta(0), handler_of_limit(row.name)
        found = {
            "limit": row.name, "messages": row.waiting, "complete": row.complete, "seconds": age.total_seconds(),
            "cost": cost, "capacity": capacity, "at_least": "" if row.complete else "at least ",
            "reason": "all of it is taken" if row.why == "full" else "its rate gives no token",
            "handler": handler, "until": "" if is_endless else " until a set time",
        }  # fmt: skip
        is_long = age > limits.longest_wait
        if row.why == "paused" and pause_reason == UNDECLARED:
            yield found | {"code": "limit_undeclared"}
        elif row.why == "paused":
            code = "limit_paused:handler" if handler else "limit_paused"
            yield found | {"code": code, "severity": WARNING if is_long and is_endless else NOTE}
        elif row.why is None and is_served:
            yield found | {"code": "limit_stuck"}
        elif row.why is not None and is_long:
            yield found | {"code": "limit_waits"}
        if capacity is not None and cost > capacity:
            yield found | {"code": "limit_cost"}


def limits_without_handlers(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the limits that are set for handlers that do not exist."""
    named: dict[str, list[str]] = defaultdict(list)
    for limit, handler in call(using, HANDLERS, (settings.LEASE, limits.most)):
        if handlers.find(handler) is None:
            named[limit].append(handler)
    for limit, missing in named.items():
        handler = handler_of_limit(limit)
        code = "limit_handler_missing:handler" if handler else "limit_handler_missing"
        yield {"code": code, "limit": limit, "handlers": len(missing), "shown": missing, "handler": handler}


def open_breakers(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the breakers that are open, in one row. For more than ten minutes it is a warning, before that a note."""
    found = [row for row in breakers(most=limits.most, using=using) if row.is_open]
    if found:
        [(now,)] = call(using, "SELECT clock_timestamp()")
        seconds = (now - min(row.opened_at for row in found if row.opened_at is not None)).total_seconds()
        yield {
            "breakers": [row.name() for row in found], "seconds": seconds, "waiting": sum(row.waiting for row in found),
            "count": len(found), "severity": WARNING if seconds > 600 else NOTE,
            "least": "At least " if any(row.waiting >= MOST_WAITING for row in found) else "",
        }  # fmt: skip


LONGEST = "for {seconds:age}: {names}"
WAIT = "{at_least:raw}{messages} message(s) wait, the oldest for {seconds:age}"
LIMIT = "limit messages complete seconds"
SERVED = "of the queue {queue} are for handlers that none of its workers has, the oldest"
UNSERVED = "of the queue {queue} are for handlers that no installed app has, and no worker serves the queue, the oldest"
DEPLOY = (
    "Deploy the release that has the handlers, or correct a wrong name. Each message becomes a dead letter "
    "(unknown_handler) {grace:age} after a worker first took it; redrive those afterwards."
)
CORRECT = (
    "Correct the name where it is enqueued, or add the handler. If workers of another project have it, start them."
)
AGAIN = " Schedules enqueue them again and again: {schedules}."
END = " If the handler was deleted, end its schedule: manage.py pgqueue drop schedule NAME."
RESUME = (
    "See since when and why: manage.py pgqueue explain channel {first} --queue {queue}. Resume when the reason is "
    "gone: manage.py pgqueue resume "
)
# fmt: off
WAITS = (
    Rule("no_worker", CRITICAL, waiting, "queue",
        "The queue {queue} has messages that wait, and no worker serves it.",
        "Start a worker: manage.py runqueueworker --queue {queue}."),
    Rule("waiting", WARNING, waiting, "queue channels complete shown",
        f"{{count}} channel(s) of the queue {{queue}} wait for long, the longest {LONGEST}.",
        "See what a channel waits for: manage.py pgqueue explain channel NAME --queue {queue}. Start more workers, or "
        "raise the limit that it names."),
    Rule("held", WARNING, waiting, "queue channels complete shown",
        "{count} ordered channel(s) of the queue {queue} wait for long, the longest for {seconds:age}, behind a "
        "message that is tried again, or waits for a shared limit: {names}.",
        "Look at the message in the admin: it has its errors, and what it waits for. manage.py pgqueue retry message "
        "ID delivers a failed one now; cancel message ID or discard message ID lets the others go on."),
    # It is a warning if a pause has no end, because it may be forgotten.
    Rule("paused:queue", NOTE, waiting, "queue channels complete shown paused endless",
        f"The queue {{queue}} is paused, and {{count}} channel(s) of it wait, the longest {LONGEST}.",
        RESUME + "queue {queue}."),
    Rule("paused:channel", NOTE, waiting, "queue channels complete shown paused endless",
        f"{{count}} channel(s) of the queue {{queue}} are paused and have messages, the longest {LONGEST}.",
        RESUME + "channel NAME --queue {queue}."),
)
SHARED_LIMITS = (
    Rule("limit_undeclared", CRITICAL, shared_limits, LIMIT,
        f"A handler names the shared limit {{limit}}, and nothing declares it: {WAIT}.",
        "Declare Limit({limit!r}, …) in handlers.py or in the setting LIMITS and restart the workers, or set and "
        "resume it with manage.py pgqueue set limit and pgqueue resume limit."),
    Rule("limit_paused", NOTE, shared_limits, LIMIT,
        f"The shared limit {{limit}} is paused{{until:raw}}: {WAIT}.",
        "Resume it when the reason is gone: manage.py pgqueue resume limit {limit}."),
    Rule("limit_paused:handler", NOTE, shared_limits, LIMIT,
        f"The {{limit}} is paused{{until:raw}}: {WAIT}.",
        "Resume it when the reason is gone: manage.py pgqueue resume handler {handler}."),
    Rule("limit_stuck", WARNING, shared_limits, LIMIT,
        f"The shared limit {{limit}} has room, and nothing takes it: {WAIT}.",
        "Start a worker or the maintenance (manage.py sweepqueue). If they run, a transaction that has dequeued a "
        "message of the limit is still open and holds it: look for it with pgqueue doctor --only horizon."),
    Rule("limit_waits", WARNING, shared_limits, LIMIT,
        f"Messages wait for long for the shared limit {{limit}}, because {{reason}}: {WAIT}.",
        "See which channels hold its places: manage.py pgqueue explain channel NAME, of one that waits. Raise the "
        "limit if the service that it protects can take more, or enqueue less."),
    Rule("limit_cost", WARNING, shared_limits, f"{LIMIT} cost capacity",
        "A message that waits for the shared limit {limit} costs {cost:,}, and the limit never has more than "
        "{capacity:,}: it runs only when nothing else uses the limit.",
        "Raise max_cost or the burst of the rate, or split the message into smaller ones."),
    Rule("limit_handler_missing", NOTE, limits_without_handlers, "limit handlers shown",
        "The shared limit {limit} is set for handlers that no worker and no installed app has: {shown}.",
        "Correct the names with limit_set(handlers=[…]) or in the admin. Removed handlers do no harm."),
    Rule("limit_handler_missing:handler", NOTE, limits_without_handlers, "limit handlers shown",
        "The handler {handler} is or was paused, and no worker and no installed app has it.",
        "If the name is wrong, delete the pause: it is the shared limit of this name in the admin, and manage.py "
        "pgqueue drop limit '{limit}' drops it."),
)
BREAKERS = (
    Rule("breaker_open", NOTE, open_breakers, "breakers seconds waiting",
        "{count} breaker(s) are open, the longest for {seconds:age}: {breakers}. {least:raw}{waiting:,} message(s) "
        "wait for them.",
        "Look at the errors of these handlers, and at what they call. A breaker closes when a message that tries is "
        "completed; manage.py pgqueue close breaker HANDLER closes it now."),
)
LOST_CHANNELS = (
    Rule("channel_missing", CRITICAL, ORPHANS, "messages channels shown",
        "At least {messages} message(s) belong to channels whose rows do not exist, so no worker gets them. Ids of the "
        "channels: {ids}.",
        "The rows were deleted by hand; channel_release is the way to remove a channel. INSERT each row into "
        "pgqueue_channel again, with this id, its queue and its name, then run pgqueue doctor --fix; or DELETE the "
        "messages from pgqueue_message."),
)
UNKNOWN_HANDLERS = tuple(
    Rule(code + case, WARNING, missing_handlers, "queue messages seconds handlers shown" + facts,
        f"{{messages}} message(s) {which} for {{seconds:age}}: {{shown}}.{again}", action + end)
    for code, which, action in (("unknown_handler", SERVED, DEPLOY), ("handler_missing", UNSERVED, CORRECT))
    for case, facts, again, end in (("", "", "", ""), (":scheduled", " schedules", AGAIN, END))
)
# fmt: on
