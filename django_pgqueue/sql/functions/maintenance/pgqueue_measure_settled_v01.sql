-- Adds the messages that were settled between two snapshots to pgqueue_activity: a whole queue by minute and by ten
-- minutes, a channel by ten minutes and by the hour, a handler by ten minutes and in all (minutes 0), there with its
-- failed attempts by the type of their error.
-- A row of the archive counts if p_now shows its transaction and p_before does not: so it counts once, however late it
-- is committed. Rows of pgqueue_unarchived are deleted, and count in pgqueue_unarchived_total from then on. p_since:
-- when the first of these transactions may have begun.
-- Returns the number of settled messages, and how many of them died.
-- Locks: its own rows; pgqueue_measure runs once at a time.
CREATE FUNCTION pgqueue_measure_settled(p_since timestamptz, p_before pg_snapshot, p_now pg_snapshot)
RETURNS TABLE (settled bigint, dead bigint)
LANGUAGE sql
SET enable_seqscan = off
SET jit = off
AS $$
-- Takes the messages that were settled without an archive.
WITH unarchived AS (
    DELETE FROM pgqueue_unarchived AS u WHERE u.settled_at >= p_since RETURNING u.*
),
-- Collects the attempts and durations of all that was settled between the snapshots.
fresh AS MATERIALIZED (
    -- The archive's index on archived_at finds ranges of blocks only; xid decides.
    SELECT a.queue COLLATE "C" AS queue, a.channel COLLATE "C" AS channel, a.handler COLLATE "C" AS handler,
        a.archived_at AS at, a.outcome, a.attempts, a.errors,
        date_part('epoch', coalesce(a.started_at, a.leased_at)) - date_part('epoch', a.dequeue_at) AS wait,
        date_part('epoch', a.archived_at) - date_part('epoch', coalesce(a.started_at, a.leased_at)) AS run
    FROM pgqueue_archived_message AS a
    WHERE a.archived_at >= p_since AND pg_visible_in_snapshot(a.xid, p_now)
        AND NOT pg_visible_in_snapshot(a.xid, p_before)
    UNION ALL
    SELECT u.queue, u.channel, u.handler COLLATE "C", u.settled_at, u.outcome, e.attempts, NULL, e.wait, e.run
    FROM unarchived AS u
    CROSS JOIN LATERAL unnest(u.attempts, u.waits, u.runs) AS e (attempts, wait, run)
    UNION ALL
    SELECT d.queue COLLATE "C", d.channel COLLATE "C", d.handler COLLATE "C", d.dead_at, 'dead', d.attempts,
        -- A handler that refuses a message gives details; a retry that was the last has its error among the others.
        coalesce(d.errors, '[]') || CASE
            WHEN d.reason = 'discarded' OR d.errors -> -1 ->> 'attempt' = d.attempts::text THEN '[]'
            ELSE jsonb_build_object('type', coalesce(d.details ->> 'type', 'rejected'))
        END,
        date_part('epoch', coalesce(d.started_at, d.leased_at)) - date_part('epoch', d.dequeue_at),
        date_part('epoch', d.dead_at) - date_part('epoch', coalesce(d.started_at, d.leased_at))
    FROM pgqueue_dead_letter AS d
    WHERE d.xid >= pg_snapshot_xmin(p_before) AND d.dead_at >= p_since
        AND pg_visible_in_snapshot(d.xid, p_now) AND NOT pg_visible_in_snapshot(d.xid, p_before)
),
-- Sums up the messages by time. Each counts at six places: twice for its queue, channel and handler.
placed AS (
    SELECT f.queue, l.channel, l.handler, l.minutes, CASE l.minutes WHEN 0 THEN '2000-01-01 00:00+00'
            ELSE date_bin(make_interval(mins => l.minutes), f.at, '2000-01-01 00:00+00') END AS bucket_at,
        count(*) FILTER (WHERE f.outcome IN ('completed', 'popped')) AS completed,
        count(*) FILTER (WHERE f.outcome IN ('cancelled', 'purged', 'dropped')) AS cancelled,
        count(*) FILTER (WHERE f.outcome = 'dead') AS dead,
        sum(greatest(f.attempts - 1, 0)) AS retries,
        pgqueue_histogram(array_agg(f.wait)) AS waits,
        pgqueue_histogram(array_agg(f.run)) AS runs
    FROM fresh AS f
    CROSS JOIN LATERAL (VALUES (NULL, NULL, 1), (NULL, NULL, 10), (f.channel, NULL, 10), (f.channel, NULL, 60),
        (NULL, f.handler, 10), (NULL, f.handler, 0)) AS l (channel, handler, minutes)
    GROUP BY f.queue, l.channel, l.handler, l.minutes, 5
),
-- Counts the failed attempts of each handler by the type of their error, or as interrupted. A type that is
-- no name may hold data of a tenant, which these figures must not keep.
failed AS (
    SELECT t.queue, t.handler, jsonb_object_agg(t.type, t.failures) AS errors
    FROM (
        SELECT f.queue, f.handler, count(*) AS failures, CASE WHEN e.error ? 'interruption' THEN 'interrupted'
                WHEN e.error ->> 'type' ~ '^[A-Za-z_][A-Za-z0-9_.]{0,99}$' THEN e.error ->> 'type'
                ELSE 'other' END AS type
        FROM fresh AS f
        CROSS JOIN LATERAL jsonb_array_elements(
            CASE jsonb_typeof(f.errors) WHEN 'array' THEN f.errors ELSE '[]' END) AS e (error)
        GROUP BY f.queue, f.handler, 4
    ) AS t
    GROUP BY t.queue, t.handler
),
-- Adds the counts to the figures of the dashboard.
added AS (
    INSERT INTO pgqueue_activity AS a (queue, channel, handler, minutes, bucket_at, completed, cancelled, dead,
        retries, errors, waits, runs)
    SELECT p.queue, p.channel, p.handler, p.minutes, p.bucket_at, p.completed, p.cancelled, p.dead, p.retries,
        coalesce(f.errors, '{}'), p.waits, p.runs
    FROM placed AS p
    LEFT JOIN failed AS f ON p.minutes = 0 AND f.queue = p.queue AND f.handler = p.handler
    ON CONFLICT (queue, channel, handler, minutes, bucket_at) DO UPDATE
    SET completed = a.completed + excluded.completed, cancelled = a.cancelled + excluded.cancelled,
        dead = a.dead + excluded.dead, retries = a.retries + excluded.retries,
        errors = CASE WHEN excluded.errors = '{}' THEN a.errors ELSE (
            SELECT jsonb_object_agg(s.key, s.failures)
            FROM (
                SELECT e.key, sum(e.value::bigint) AS failures
                FROM (SELECT * FROM jsonb_each_text(a.errors) UNION ALL SELECT * FROM jsonb_each_text(excluded.errors))
                    AS e
                GROUP BY e.key
            ) AS s
        ) END,
        waits = pgqueue_histogram_add(a.waits, excluded.waits), runs = pgqueue_histogram_add(a.runs, excluded.runs)
),
-- Adds the messages without an archive to the total.
totals AS (
    INSERT INTO pgqueue_unarchived_total AS t (queue, channel, messages)
    SELECT u.queue, u.channel, sum(cardinality(u.attempts)) FROM unarchived AS u GROUP BY u.queue, u.channel
    ON CONFLICT (queue, channel) DO UPDATE SET messages = t.messages + excluded.messages
)
SELECT count(*), count(*) FILTER (WHERE f.outcome = 'dead') FROM fresh AS f;
$$;
