-- Computes the metrics of some days, for each minute, hour and day, in three levels: of each queue, each channel and
-- each handler. Percentiles of parts do not add up to those of the whole.
-- Tables: {measured}: messages settled on these days; {created}: messages created on them, settled at any time.
-- Parameters: :sla as in measured.sql; :accuracy of percentile_approx: a percentile of up to accuracy / 2 values is
--   exact (percentile_disc), of more it is off by one in accuracy of the ranks at most; :minutes_from, the first day
--   that has rows by minute.
-- Adds up the times of each settled message.
WITH events AS (
    SELECT m.queue, m.channel, m.handler, m.settled_at AS at, m.outcome, m.attempts, m.wait, m.run, m.total,
        size(filter(m.failed, f -> f.put_back)) AS retries,
        coalesce(m.run, 0) + aggregate(filter(m.failed, f -> f.put_back), 0L, (sum, f) -> sum + f.micros) AS busy,
        aggregate(m.failed, 0L, (sum, f) -> sum + f.micros) AS wasted,
        m.sla IS NOT NULL AND m.outcome = 'dead' OR m.total > m.sla AS breach
    FROM {measured} AS m
),
-- Counts the created messages of each minute, hour and day. They are as many as the settled ones, and have no times:
-- among the events they would double the work of the percentiles.
arrived AS (
    SELECT b.grain, b.bucket_at, c.queue, c.channel, c.handler, count(*) AS enqueued
    FROM {created} AS c
    LATERAL VIEW inline(array(
        struct('minute', date_trunc('minute', c.created_at)),
        struct('hour', date_trunc('hour', c.created_at)),
        struct('day', date_trunc('day', c.created_at)))) b AS grain, bucket_at
    WHERE b.grain <> 'minute' OR b.bucket_at >= CAST(:minutes_from AS TIMESTAMP)
    GROUP BY GROUPING SETS (
        (b.grain, b.bucket_at, c.queue),
        (b.grain, b.bucket_at, c.queue, c.channel),
        (b.grain, b.bucket_at, c.queue, c.channel, c.handler))
),
-- Aggregates the events of each minute, hour and day.
settled AS (
    SELECT b.grain, b.bucket_at, e.queue, e.channel, e.handler,
        count_if(e.outcome = 'completed') AS completed,
        count_if(e.outcome = 'popped') AS popped,
        count_if(e.outcome = 'purged') AS purged,
        count_if(e.outcome = 'dropped') AS dropped,
        count_if(e.outcome = 'cancelled') AS cancelled,
        count_if(e.outcome = 'dead') AS dead,
        sum(e.attempts) AS attempts,
        sum(e.retries) AS retries,
        percentile_approx(e.wait, array(0.5D, 0.95D, 0.99D), :accuracy) AS wait,
        percentile_approx(e.run, array(0.5D, 0.95D, 0.99D), :accuracy) AS run,
        percentile_approx(e.total, array(0.5D, 0.95D, 0.99D), :accuracy) AS total,
        max(e.total) AS total_max,
        sum(e.busy) AS busy,
        sum(e.wasted) AS wasted,
        count_if(e.breach) AS breaches
    FROM events AS e
    LATERAL VIEW inline(array(
        struct('minute', date_trunc('minute', e.at)),
        struct('hour', date_trunc('hour', e.at)),
        struct('day', date_trunc('day', e.at)))) b AS grain, bucket_at
    WHERE b.grain <> 'minute' OR b.bucket_at >= CAST(:minutes_from AS TIMESTAMP)
    GROUP BY GROUPING SETS (
        (b.grain, b.bucket_at, e.queue),
        (b.grain, b.bucket_at, e.queue, e.channel),
        (b.grain, b.bucket_at, e.queue, e.channel, e.handler))
),
-- Joins both: in a bucket messages may only have been created, or only settled.
counted AS (
    SELECT coalesce(s.grain, a.grain) AS grain, coalesce(s.bucket_at, a.bucket_at) AS bucket_at,
        coalesce(s.queue, a.queue) AS queue, coalesce(s.channel, a.channel) AS channel,
        coalesce(s.handler, a.handler) AS handler,
        coalesce(a.enqueued, 0) AS enqueued, coalesce(s.completed, 0) AS completed, coalesce(s.popped, 0) AS popped,
        coalesce(s.purged, 0) AS purged, coalesce(s.dropped, 0) AS dropped, coalesce(s.cancelled, 0) AS cancelled,
        coalesce(s.dead, 0) AS dead, coalesce(s.attempts, 0) AS attempts, coalesce(s.retries, 0) AS retries,
        s.wait, s.run, s.total, s.total_max, coalesce(s.busy, 0) AS busy, coalesce(s.wasted, 0) AS wasted,
        coalesce(s.breaches, 0) AS breaches
    FROM settled AS s
    FULL JOIN arrived AS a
        ON a.grain = s.grain AND a.bucket_at = s.bucket_at AND a.queue = s.queue AND a.channel <=> s.channel
            AND a.handler <=> s.handler
),
-- Lists the reasons of retries and of dead letters.
reasons AS (
    SELECT m.queue, m.channel, m.handler, m.settled_at AS at, f.reason, 1 AS retries, 0 AS dead
    FROM {measured} AS m
    LATERAL VIEW explode(filter(m.failed, f -> f.put_back)) x AS f
    UNION ALL
    SELECT m.queue, m.channel, m.handler, m.settled_at, m.reason, 0, 1 FROM {measured} AS m WHERE m.outcome = 'dead'
),
-- Counts the reasons of each minute, hour and day.
reasons_counted AS (
    SELECT b.grain, b.bucket_at, r.queue, r.channel, r.handler, r.reason, sum(r.retries) AS retries, sum(r.dead) AS dead
    FROM reasons AS r
    LATERAL VIEW inline(array(
        struct('minute', date_trunc('minute', r.at)),
        struct('hour', date_trunc('hour', r.at)),
        struct('day', date_trunc('day', r.at)))) b AS grain, bucket_at
    GROUP BY GROUPING SETS (
        (b.grain, b.bucket_at, r.queue, r.reason),
        (b.grain, b.bucket_at, r.queue, r.channel, r.reason),
        (b.grain, b.bucket_at, r.queue, r.channel, r.handler, r.reason))
),
-- Gathers the counts of reasons into one map for each row.
reasons_gathered AS (
    SELECT c.grain, c.bucket_at, c.queue, c.channel, c.handler,
        map_from_entries(array_sort(collect_list(struct(c.reason, c.retries))
            FILTER (WHERE c.retries > 0))) AS retries_by_reason,
        map_from_entries(array_sort(collect_list(struct(c.reason, c.dead)) FILTER (WHERE c.dead > 0))) AS dead_by_reason
    FROM reasons_counted AS c
    GROUP BY c.grain, c.bucket_at, c.queue, c.channel, c.handler
)
SELECT c.grain, c.bucket_at, c.queue, c.channel, c.handler, c.enqueued, c.completed, c.popped, c.purged, c.dropped,
    c.cancelled, c.dead, c.attempts, c.retries,
    c.wait[0] / 1e6D AS wait_p50_seconds, c.wait[1] / 1e6D AS wait_p95_seconds, c.wait[2] / 1e6D AS wait_p99_seconds,
    c.run[0] / 1e6D AS run_p50_seconds, c.run[1] / 1e6D AS run_p95_seconds, c.run[2] / 1e6D AS run_p99_seconds,
    c.total[0] / 1e6D AS total_p50_seconds, c.total[1] / 1e6D AS total_p95_seconds,
    c.total[2] / 1e6D AS total_p99_seconds, c.busy / 1e6D AS run_seconds,
    c.busy / nullif(sum(c.busy) FILTER (WHERE c.channel IS NULL) OVER (PARTITION BY c.grain, c.bucket_at, c.queue),
        0) AS capacity_share,
    c.wasted / 1e6D AS retry_seconds,
    coalesce(try_element_at(s.sla, concat(c.queue, '/', c.channel)), try_element_at(s.sla, c.queue))
        / 1e6D AS sla_seconds,
    c.breaches AS sla_breaches,
    coalesce(g.retries_by_reason, map()) AS retries_by_reason,
    coalesce(g.dead_by_reason, map()) AS dead_by_reason,
    CASE WHEN c.channel IS NULL THEN 'queue' WHEN c.handler IS NULL THEN 'channel' ELSE 'handler' END AS level,
    c.total_max / 1e6D AS total_max_seconds,
    to_date(c.bucket_at) AS day
FROM counted AS c
CROSS JOIN (SELECT from_json(:sla, 'MAP<STRING, BIGINT>') AS sla) AS s
LEFT JOIN reasons_gathered AS g
    ON g.grain = c.grain AND g.bucket_at = c.bucket_at AND g.queue = c.queue AND g.channel <=> c.channel
        AND g.handler <=> c.handler
