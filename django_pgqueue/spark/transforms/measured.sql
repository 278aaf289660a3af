-- Returns the messages settled on some days, with their times in microseconds and their failed attempts.
-- Tables: {archive}, {dead_letter}. Parameter: :sla, a JSON object of microseconds by "queue" or "queue/channel".
-- began_at: when the last handler started, or else its lease.
-- Joins the archive with the dead letters.
WITH settled AS (
    SELECT queue, channel, handler, created_at, dequeue_at, coalesce(started_at, leased_at) AS began_at,
        archived_at AS settled_at, outcome,
        CAST(NULL AS STRING) AS reason, attempts, errors
    FROM {archive}
    UNION ALL
    SELECT queue, channel, handler, created_at, dequeue_at, coalesce(started_at, leased_at), dead_at, 'dead',
        coalesce(reason, 'unknown'), attempts, errors
    FROM {dead_letter}
),
-- Parses the errors. They come from callers of SQL functions: an error that cannot be read counts as unknown.
parsed AS (
    SELECT s.*,
        -- One by one: from an array with a single entry of another kind, Spark would take nothing.
        transform(
            from_json(s.errors, 'ARRAY<STRING>'),
            e -> from_json(
                e, 'STRUCT<attempt: STRING, at: STRING, leased_at: STRING, started_at: STRING, type: STRING>')
        ) AS failed,
        from_json(:sla, 'MAP<STRING, BIGINT>') AS sla
    FROM settled AS s
)
-- put_back: the failed attempt was followed by another one, or by the wait for it. Otherwise its time is that of the
-- last handler.
SELECT p.queue, p.channel, p.handler, p.settled_at, p.outcome, p.reason, p.attempts,
    coalesce(try_element_at(p.sla, concat(p.queue, '/', p.channel)), try_element_at(p.sla, p.queue)) AS sla,
    unix_micros(p.began_at) - unix_micros(p.dequeue_at) AS wait,
    unix_micros(p.settled_at) - unix_micros(p.began_at) AS run,
    CASE WHEN p.began_at IS NOT NULL THEN unix_micros(p.settled_at) - unix_micros(p.created_at) END AS total,
    transform(
        coalesce(p.failed, array()),
        f -> struct(
            coalesce(f.type, 'unknown') AS reason,
            coalesce(unix_micros(try_cast(f.at AS TIMESTAMP))
                - unix_micros(try_cast(coalesce(f.started_at, f.leased_at) AS TIMESTAMP)), 0) AS micros,
            p.began_at IS NULL OR coalesce(f.attempt <> CAST(p.attempts AS STRING), true) AS put_back)) AS failed
FROM parsed AS p
