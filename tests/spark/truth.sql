-- The metrics, from the archive and the dead letters themselves. %(sla)s: a JSON object of seconds by queue, or queue and channel.
WITH settled AS (
    SELECT queue, channel, handler, created_at, dequeue_at, coalesce(started_at, leased_at) AS began_at, archived_at AS settled_at, outcome, NULL AS reason,
        attempts, coalesce(errors, '[]') AS errors
    FROM pgqueue_archived_message
    UNION ALL
    SELECT queue, channel, handler, created_at, dequeue_at, coalesce(started_at, leased_at), dead_at, 'dead', reason, attempts,
        coalesce(errors, '[]')
    FROM pgqueue_dead_letter
),
failures AS (
    SELECT s.*, f.*
    FROM settled AS s
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(extract(epoch FROM e.at - e.began_at)), 0) AS wasted,
            coalesce(sum(extract(epoch FROM e.at - e.began_at)) FILTER (WHERE e.put_back), 0) AS put_back_seconds,
            array_remove(array_agg(e.type) FILTER (WHERE e.put_back), NULL) AS types
        FROM (
            SELECT coalesce(j ->> 'type', 'unknown') AS type, (j ->> 'at')::timestamptz AS at,
                coalesce(j ->> 'started_at', j ->> 'leased_at')::timestamptz AS began_at,
                s.began_at IS NULL OR (j ->> 'attempt')::int <> s.attempts AS put_back
            FROM jsonb_array_elements(s.errors) AS j
        ) AS e
    ) AS f
),
messages AS (
    SELECT f.*, coalesce((%(sla)s::jsonb ->> (queue || '/' || channel))::float8, (%(sla)s::jsonb ->> queue)::float8) AS sla,
        extract(epoch FROM began_at - dequeue_at)::float8 AS wait,
        extract(epoch FROM settled_at - began_at)::float8 AS run,
        CASE WHEN began_at IS NOT NULL THEN extract(epoch FROM settled_at - created_at)::float8 END AS total
    FROM failures AS f
),
grains AS (SELECT unnest(ARRAY['minute', 'hour', 'day']) AS grain),
counted AS (
    SELECT g.grain, date_trunc(g.grain, m.settled_at) AS bucket_at, m.queue, m.channel, m.handler,
        count(*) FILTER (WHERE outcome = 'completed') AS completed,
        count(*) FILTER (WHERE outcome = 'popped') AS popped,
        count(*) FILTER (WHERE outcome = 'purged') AS purged,
        count(*) FILTER (WHERE outcome = 'dropped') AS dropped,
        count(*) FILTER (WHERE outcome = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE outcome = 'dead') AS dead,
        sum(attempts) AS attempts,
        coalesce(sum(cardinality(types)), 0) AS retries,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY wait) AS wait,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY run) AS run,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY total) AS total,
        max(total) AS total_max,
        coalesce(sum(put_back_seconds + coalesce(extract(epoch FROM settled_at - began_at), 0)), 0) AS busy,
        coalesce(sum(wasted), 0) AS wasted,
        count(*) FILTER (WHERE total > sla OR outcome = 'dead' AND sla IS NOT NULL) AS breaches
    FROM messages AS m, grains AS g
    GROUP BY GROUPING SETS ((1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5))
),
created AS (
    SELECT g.grain, date_trunc(g.grain, m.created_at) AS bucket_at, m.queue, m.channel, m.handler, count(*) AS enqueued
    FROM messages AS m, grains AS g
    GROUP BY GROUPING SETS ((1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5))
),
reasons AS (
    SELECT g.grain, date_trunc(g.grain, r.settled_at) AS bucket_at, r.queue, r.channel, r.handler, kind, reason, count(*) AS n
    FROM (
        SELECT settled_at, queue, channel, handler, 'retry' AS kind, unnest(types) AS reason FROM messages
        UNION ALL
        SELECT settled_at, queue, channel, handler, 'dead', reason FROM messages WHERE outcome = 'dead'
    ) AS r, grains AS g
    GROUP BY GROUPING SETS ((1, 2, 3, 6, 7), (1, 2, 3, 4, 6, 7), (1, 2, 3, 4, 5, 6, 7))
),
gathered AS (
    SELECT grain, bucket_at, queue, channel, handler,
        coalesce(jsonb_object_agg(reason, n) FILTER (WHERE kind = 'retry'), '{}') AS retries_by_reason,
        coalesce(jsonb_object_agg(reason, n) FILTER (WHERE kind = 'dead'), '{}') AS dead_by_reason
    FROM reasons GROUP BY 1, 2, 3, 4, 5
),
keys AS (
    SELECT grain, bucket_at, queue, channel, handler FROM counted
    UNION
    SELECT grain, bucket_at, queue, channel, handler FROM created
)
SELECT k.grain, k.bucket_at, k.queue, k.channel, k.handler, coalesce(e.enqueued, 0), coalesce(completed, 0), coalesce(popped, 0),
    coalesce(purged, 0), coalesce(dropped, 0), coalesce(cancelled, 0), coalesce(dead, 0), coalesce(attempts, 0), coalesce(retries, 0),
    wait[1], wait[2], wait[3], run[1], run[2], run[3], total[1], total[2], total[3],
    coalesce(busy, 0)::float8,
    (coalesce(busy, 0) / nullif(max(busy) FILTER (WHERE k.channel IS NULL) OVER (PARTITION BY k.grain, k.bucket_at, k.queue), 0))::float8,
    coalesce(wasted, 0)::float8,
    coalesce((%(sla)s::jsonb ->> (k.queue || '/' || k.channel))::float8, (%(sla)s::jsonb ->> k.queue)::float8),
    coalesce(breaches, 0), coalesce(retries_by_reason, '{}'), coalesce(dead_by_reason, '{}'),
    CASE WHEN k.channel IS NULL THEN 'queue' WHEN k.handler IS NULL THEN 'channel' ELSE 'handler' END, total_max
FROM keys AS k
LEFT JOIN counted AS c ON (c.grain, c.bucket_at, c.queue) = (k.grain, k.bucket_at, k.queue)
    AND c.channel IS NOT DISTINCT FROM k.channel AND c.handler IS NOT DISTINCT FROM k.handler
LEFT JOIN created AS e ON (e.grain, e.bucket_at, e.queue) = (k.grain, k.bucket_at, k.queue)
    AND e.channel IS NOT DISTINCT FROM k.channel AND e.handler IS NOT DISTINCT FROM k.handler
LEFT JOIN gathered AS g ON (g.grain, g.bucket_at, g.queue) = (k.grain, k.bucket_at, k.queue)
    AND g.channel IS NOT DISTINCT FROM k.channel AND g.handler IS NOT DISTINCT FROM k.handler
