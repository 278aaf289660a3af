"""Examine what messages wait for: workers, handlers, pauses, shared limits, breakers, or a channel that is gone."""

from __future__ import annotations

from django_pgqueue.checks.rules import CRITICAL, NOTE, WARNING, Rule

# Queues without a worker, and queues whose channels wait for long: paused, held by a message, or neither. A lease that
# has not expired may be that of a consumer by plain SQL, which sends no heartbeat of a worker. A released channel
# drains also when it is paused.
WAITING = """
WITH unserved AS MATERIALIZED (
    SELECT 'no_worker' AS code, h.queue FROM pgqueue_health(NULL, %(most)s, %(lease)s::interval) AS h
    WHERE NOT h.paused AND h.workers = 0 AND h.ready + h.waiting_for_limit > 0 AND (h.leased = 0 OR NOT EXISTS (
        SELECT FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
        WHERE m.lease_expires_at > clock_timestamp() AND c.queue = h.queue))
),
late AS (
    SELECT w.queue, w.channel, w.complete, extract(epoch FROM clock_timestamp() - w.oldest_at)::float AS seconds,
        x.paused, CASE x.paused WHEN 'queue' THEN q.paused_until ELSE p.paused_until END IS NULL AS endless,
        CASE WHEN x.paused IS NULL THEN (
            SELECT m.id FROM pgqueue_lane AS l JOIN pgqueue_message AS m ON m.id = l.current_id
            WHERE c.ordered AND l.channel_id = c.id
                AND (m.status = 1 AND m.held_until > clock_timestamp() OR m.waits_for >= 0)) END AS held_by
    FROM pgqueue_waiting(%(most)s) AS w
    JOIN pgqueue_channel AS c ON c.id = w.channel_id
    LEFT JOIN pgqueue_channel AS p ON p.id = c.id AND p.released_at IS NULL
    LEFT JOIN pgqueue_queue AS q ON q.name = c.queue
    CROSS JOIN LATERAL (SELECT CASE
        WHEN q.paused_at IS NOT NULL THEN 'queue' WHEN p.paused_at IS NOT NULL THEN 'channel' END AS paused) AS x
    WHERE w.oldest_at < clock_timestamp() - %(waiting)s::interval
),
grouped AS (
    SELECT CASE WHEN l.paused IS NOT NULL THEN 'paused:' || l.paused
            WHEN l.held_by IS NOT NULL THEN 'held' ELSE 'waiting' END AS code,
        l.queue, count(*) AS channels, bool_and(l.complete) AS complete, max(l.seconds) AS seconds,
        min(l.paused) AS paused, bool_or(l.endless) AS endless,
        array_agg(l.channel || coalesce(' (message ' || l.held_by || ')', '') ORDER BY l.seconds DESC) AS names,
        jsonb_agg(jsonb_build_object('channel', l.channel, 'seconds', l.seconds) ORDER BY l.seconds DESC) AS shown
    FROM late AS l
    GROUP BY code, l.queue
)
SELECT *, g.shown -> 0 ->> 'channel' AS first, CASE WHEN g.complete THEN '' ELSE 'at least ' END AS at_least,
    CASE WHEN g.paused IS NOT NULL AND g.endless THEN 1 END AS severity
FROM unserved FULL JOIN grouped AS g USING (code, queue)
WHERE code <> 'waiting' OR queue NOT IN (SELECT u.queue FROM unserved AS u)
ORDER BY queue, code
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
# Messages whose handler no worker has; for a queue without workers, those that no installed app has. A process that is
# starting has not said what it has, and takes nothing yet; an older release never says it, and may have any. Schedules
# go on when the module that declared them is gone.
UNKNOWN = """
WITH live AS (
    SELECT w.queues, w.handlers FROM pgqueue_worker AS w
    WHERE w.heartbeat_at >= clock_timestamp() - %(lease)s::interval AND w.state <> 'starting'
),
waiting AS (
    SELECT c.queue, m.handler, count(*) AS messages, min(m.created_at) AS oldest_at
    FROM (
        SELECT m.channel_id, m.handler, m.created_at FROM pgqueue_message AS m
        WHERE m.status <> 2
        ORDER BY m.id
        LIMIT %(most)s
    ) AS m
    JOIN pgqueue_channel AS c ON c.id = m.channel_id
    GROUP BY c.queue, m.handler
),
missing AS (
    SELECT x.code, n.queue, sum(n.messages)::bigint AS messages, count(*) AS handlers,
        extract(epoch FROM clock_timestamp() - min(n.oldest_at)) AS seconds,
        array_agg(n.handler ORDER BY n.oldest_at) AS shown
    FROM waiting AS n
    CROSS JOIN LATERAL (SELECT CASE WHEN EXISTS (SELECT FROM live AS l WHERE l.queues ? n.queue)
        THEN 'unknown_handler' ELSE 'handler_missing' END AS code) AS x
    WHERE NOT EXISTS (
            SELECT FROM live AS l WHERE l.queues ? n.queue AND (l.handlers IS NULL OR l.handlers ? n.handler))
        AND (x.code = 'unknown_handler' OR n.handler <> ALL (%(handlers)s::text[]))
    GROUP BY x.code, n.queue
)
SELECT m.code || CASE WHEN s.schedules IS NULL THEN '' ELSE ':scheduled' END AS code, m.queue, m.messages, m.handlers,
    m.seconds, m.shown, s.schedules
FROM missing AS m
CROSS JOIN LATERAL (
    SELECT array_agg(s.name ORDER BY s.name) AS schedules FROM pgqueue_schedule AS s
    WHERE s.queue = m.queue AND s.handler = ANY (m.shown) AND s.enabled AND s.removed_at IS NULL
) AS s
ORDER BY m.code DESC, m.queue
"""
# is_served: a message waits in a channel that nothing else holds up. capacity: the highest cost that fits; null: any.
# The limit of a paused handler is called "handler" and its name.
LIMITS = """
SELECT r.code, h.name AS limit, h.waiting AS messages, h.complete, a.seconds, w.cost, k.capacity,
    substr(h.name, 9) AS handler, CASE WHEN h.complete THEN '' ELSE 'at least ' END AS at_least,
    CASE h.why WHEN 'full' THEN 'all of it is taken' ELSE 'its rate gives no token' END AS reason,
    CASE WHEN l.paused_until IS NULL THEN '' ELSE ' until a set time' END AS until,
    CASE WHEN r.code LIKE 'limit_paused%%' AND a.is_long AND l.paused_until IS NULL THEN 1 END AS severity
FROM pgqueue_limit_health(%(most)s) AS h
JOIN pgqueue_limit AS l ON l.name = h.name
CROSS JOIN LATERAL (
    SELECT coalesce(max(n.cost), 1) AS cost,
        bool_or(c.paused_at IS NULL AND c.max_concurrency IS NULL AND c.release_interval IS NULL
            AND n.dequeue_at < clock_timestamp() - %(unattended)s::interval
            AND NOT EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = c.queue AND q.paused_at IS NOT NULL)
        ) AS is_served
    FROM (
        SELECT m.cost, m.channel_id, m.dequeue_at
        FROM (SELECT l.id UNION ALL SELECT r.id FROM pgqueue_limit AS r WHERE r.parent_id = l.id) AS i
        JOIN pgqueue_message AS m ON m.waits_for = i.id
        LIMIT %(most)s
    ) AS n
    LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id
) AS w
CROSS JOIN LATERAL (
    SELECT coalesce(extract(epoch FROM h.oldest), 0) AS seconds, h.oldest > %(waiting)s::interval AS is_long
) AS a
CROSS JOIN LATERAL (
    SELECT least(l.max_cost, CASE WHEN l.release_interval IS NOT NULL THEN l.release_burst END) AS capacity
) AS k
CROSS JOIN LATERAL (VALUES
    (CASE
        WHEN h.why = 'paused' AND l.pause_reason = %(undeclared)s THEN 'limit_undeclared'
        WHEN h.why = 'paused' AND h.name LIKE 'handler %%' THEN 'limit_paused:handler'
        WHEN h.why = 'paused' THEN 'limit_paused'
        WHEN h.why IS NULL AND w.is_served THEN 'limit_stuck'
        WHEN h.why IS NOT NULL AND a.is_long THEN 'limit_waits'
    END),
    (CASE WHEN w.cost > k.capacity THEN 'limit_cost' END)
) AS r (code)
WHERE h.kind = 'shared' AND h.waiting > 0 AND r.code IS NOT NULL
ORDER BY h.name
"""
# A worker of an older release does not report its handlers; it may have any.
HANDLERS = """
SELECT 'limit_handler_missing' || CASE WHEN l.name LIKE 'handler %%' THEN ':handler' ELSE '' END AS code,
    l.name AS limit, substr(l.name, 9) AS handler,
    count(*) AS handlers, array_agg(h.handler ORDER BY h.handler) AS shown
FROM pgqueue_limit_handler AS h
JOIN pgqueue_limit AS l ON l.id = h.limit_id
WHERE NOT h.breaker AND h.handler <> ALL (%(handlers)s::text[]) AND NOT EXISTS (
    SELECT FROM pgqueue_worker AS w
    WHERE w.heartbeat_at >= clock_timestamp() - %(lease)s::interval AND (w.handlers IS NULL OR w.handlers ? h.handler))
GROUP BY l.name
ORDER BY l.name
LIMIT %(most)s
"""
# pgqueue_breakers counts 1,000 messages of each at most. For more than ten minutes it is a warning.
OPEN = """
SELECT count(*) AS count, array_agg(b.handler || coalesce(' of ' || b.queue || '/' || b.channel, '')) AS breakers,
    sum(b.waiting)::bigint AS waiting, CASE WHEN max(b.waiting) >= 1000 THEN 'At least ' ELSE '' END AS at_least,
    extract(epoch FROM clock_timestamp() - min(b.opened_at)) AS seconds,
    CASE WHEN min(b.opened_at) < clock_timestamp() - interval '10 minutes' THEN 1 ELSE 0 END AS severity
FROM pgqueue_breakers(%(most)s) AS b
WHERE b.state <> 'closed'
HAVING count(*) > 0
"""

COUNT = "{at_least:raw}{channels}"
LONGEST = "the longest for {seconds:age}: {names}"
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
    Rule("no_worker", CRITICAL, WAITING, "queue",
        "The queue {queue} has messages that wait, and no worker serves it.",
        "Start a worker: manage.py runqueueworker --queue {queue}."),
    Rule("waiting", WARNING, WAITING, "queue channels complete shown",
        f"{COUNT} channel(s) of the queue {{queue}} wait for long, {LONGEST}.",
        "See what a channel waits for: manage.py pgqueue explain channel NAME --queue {queue}. Start more workers, or "
        "raise the limit that it names."),
    Rule("held", WARNING, WAITING, "queue channels complete shown",
        f"{COUNT} ordered channel(s) of the queue {{queue}} wait for long, the longest for {{seconds:age}}, behind a "
        "message that is tried again, or waits for a shared limit: {names}.",
        "Look at the message in the admin: it has its errors, and what it waits for. manage.py pgqueue retry message "
        "ID delivers a failed one now; cancel message ID or discard message ID lets the others go on."),
    # It is a warning if a pause has no end, because it may be forgotten.
    Rule("paused:queue", NOTE, WAITING, "queue channels complete shown paused endless",
        f"The queue {{queue}} is paused, and {COUNT} channel(s) of it wait, {LONGEST}.",
        RESUME + "queue {queue}."),
    Rule("paused:channel", NOTE, WAITING, "queue channels complete shown paused endless",
        f"{COUNT} channel(s) of the queue {{queue}} are paused and have messages, {LONGEST}.",
        RESUME + "channel NAME --queue {queue}."),
)
SHARED_LIMITS = (
    Rule("limit_undeclared", CRITICAL, LIMITS, LIMIT,
        f"A handler names the shared limit {{limit}}, and nothing declares it: {WAIT}.",
        "Declare Limit({limit!r}, …) in handlers.py or in the setting LIMITS and restart the workers, or set and "
        "resume it with manage.py pgqueue set limit and pgqueue resume limit."),
    Rule("limit_paused", NOTE, LIMITS, LIMIT,
        f"The shared limit {{limit}} is paused{{until:raw}}: {WAIT}.",
        "Resume it when the reason is gone: manage.py pgqueue resume limit {limit}."),
    Rule("limit_paused:handler", NOTE, LIMITS, LIMIT,
        f"The {{limit}} is paused{{until:raw}}: {WAIT}.",
        "Resume it when the reason is gone: manage.py pgqueue resume handler {handler}."),
    Rule("limit_stuck", WARNING, LIMITS, LIMIT,
        f"The shared limit {{limit}} has room, and nothing takes it: {WAIT}.",
        "Start a worker or the maintenance (manage.py sweepqueue). If they run, a transaction that has dequeued a "
        "message of the limit is still open and holds it: look for it with pgqueue doctor --only horizon."),
    Rule("limit_waits", WARNING, LIMITS, LIMIT,
        f"Messages wait for long for the shared limit {{limit}}, because {{reason}}: {WAIT}.",
        "See which channels hold its places: manage.py pgqueue explain channel NAME, of one that waits. Raise the "
        "limit if the service that it protects can take more, or enqueue less."),
    Rule("limit_cost", WARNING, LIMITS, f"{LIMIT} cost capacity",
        "A message that waits for the shared limit {limit} costs {cost:,}, and the limit never has more than "
        "{capacity:,}: it runs only when nothing else uses the limit.",
        "Raise max_cost or the burst of the rate, or split the message into smaller ones."),
    Rule("limit_handler_missing", NOTE, HANDLERS, "limit handlers shown",
        "The shared limit {limit} is set for handlers that no worker and no installed app has: {shown}.",
        "Correct the names with limit_set(handlers=[…]) or in the admin. Removed handlers do no harm."),
    Rule("limit_handler_missing:handler", NOTE, HANDLERS, "limit handlers shown",
        "The handler {handler} is or was paused, and no worker and no installed app has it.",
        "If the name is wrong, delete the pause: it is the shared limit of this name in the admin, and manage.py "
        "pgqueue drop limit '{limit}' drops it."),
)
BREAKERS = (
    Rule("breaker_open", NOTE, OPEN, "breakers seconds waiting",
        "{count} breaker(s) are open, the longest for {seconds:age}: {breakers}. {at_least:raw}{waiting:,} "
        "message(s) wait for them.",
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
    Rule(code + case, WARNING, UNKNOWN, "queue messages seconds handlers shown" + facts,
        f"{{messages}} message(s) {which} for {{seconds:age}}: {{shown}}.{again}", action + end)
    for code, which, action in (("unknown_handler", SERVED, DEPLOY), ("handler_missing", UNSERVED, CORRECT))
    for case, facts, again, end in (("", "", "", ""), (":scheduled", " schedules", AGAIN, END))
)
# fmt: on
