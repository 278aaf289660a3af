-- Adds the messages that were settled between two snapshots to pgqueue_activity: a whole queue by minute and by ten
-- minutes, a channel by ten minutes and by the hour.
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
    SELECT a.queue COLLATE "C" AS queue, a.channel COLLATE "C" AS channel, a.archived_at AS at, a.outcome, a.attempts,
        date_part('epoch', coalesce(a.started_at, a.leased_at)) - date_part('epoch', a.dequeue_at) AS wait,
        date_part('epoch', a.archived_at) - date_part('epoch', coalesce(a.started_at, a.leased_at)) AS run
    FROM pgqueue_archived_message AS a
    WHERE a.archived_at >= p_since AND pg_visible_in_snapshot(a.xid, p_now)
        AND NOT pg_visible_in_snapshot(a.xid, p_before)
    UNION ALL
    SELECT u.queue, u.channel, u.settled_at, u.outcome, e.attempts, e.wait, e.run
    FROM unarchived AS u
    CROSS JOIN LATERAL unnest(u.attempts, u.waits, u.runs) AS e (attempts, wait, run)
    UNION ALL
    SELECT d.queue COLLATE "C", d.channel COLLATE "C", d.dead_at, 'dead', d.attempts,
        date_part('epoch', coalesce(d.started_at, d.leased_at)) - date_part('epoch', d.dequeue_at),
        date_part('epoch', d.dead_at) - date_part('epoch', coalesce(d.started_at, d.leased_at))
    FROM pgqueue_dead_letter AS d
    WHERE d.xid >= pg_snapshot_xmin(p_before) AND d.dead_at >= p_since
        AND pg_visible_in_snapshot(d.xid, p_now) AND NOT pg_visible_in_snapshot(d.xid, p_before)
),
-- Sums up the messages by time. Each counts at four places: twice for its queue, twice for its channel.
placed AS (
    SELECT f.queue, l.channel, l.minutes,
        date_bin(make_interval(mins => l.minutes), f.at, '2000-01-01 00:00+00') AS bucket_at,
        count(*) FILTER (WHERE f.outcome IN ('completed', 'popped')) AS completed,
        count(*) FILTER (WHERE f.outcome IN ('cancelled', 'purged', 'dropped')) AS cancelled,
        count(*) FILTER (WHERE f.outcome = 'dead') AS dead,
        sum(greatest(f.attempts - 1, 0)) AS retries,
        pgqueue_histogram(array_agg(f.wait)) AS waits,
        pgqueue_histogram(array_agg(f.run)) AS runs
    FROM fresh AS f
    CROSS JOIN LATERAL (VALUES (NULL, 1), (NULL, 10), (f.channel, 10), (f.channel, 60)) AS l (channel, minutes)
    GROUP BY f.queue, l.channel, l.minutes, 4
),
-- Adds the counts to the figures of the dashboard.
added AS (
    INSERT INTO pgqueue_activity AS a (queue, channel, minutes, bucket_at, completed, cancelled, dead, retries,
        waits, runs)
    SELECT p.queue, p.channel, p.minutes, p.bucket_at, p.completed, p.cancelled, p.dead, p.retries, p.waits, p.runs
    FROM placed AS p
    ON CONFLICT (queue, channel, minutes, bucket_at) DO UPDATE
    SET completed = a.completed + excluded.completed, cancelled = a.cancelled + excluded.cancelled,
        dead = a.dead + excluded.dead, retries = a.retries + excluded.retries,
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
