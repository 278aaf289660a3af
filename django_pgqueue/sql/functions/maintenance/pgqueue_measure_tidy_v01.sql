-- Removes figures that the dashboard does not show any more, and summarises new rows in the index of today's archive,
-- so that the next measurement finds them without reading old ones.
-- p_last: the time of the previous call. Minutes of queues and ten minutes of channels are kept for two hours, what
-- handlers have settled in all (minutes 0) for ever, the rest for 26 hours. Messages that were settled without an
-- archive, and could not be seen for more than an hour, appear in no figure any more, but in the total.
-- Locks: SHARE UPDATE EXCLUSIVE of today's partition, for 100 ms at most, else it is left for the next time: a vacuum
--   does it, too.
CREATE FUNCTION pgqueue_measure_tidy(p_last timestamptz, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_timeout text := current_setting('lock_timeout');
BEGIN
    DELETE FROM pgqueue_measurement AS m
    WHERE m.measured_at < p_now - interval '1 hour' AND m.id < (SELECT max(n.id) FROM pgqueue_measurement AS n);
    IF p_last IS NULL OR date_bin('10 minutes', p_last, '2000-01-01 00:00+00')
        <> date_bin('10 minutes', p_now, '2000-01-01 00:00+00') THEN
        DELETE FROM pgqueue_activity AS a WHERE a.minutes = 1 AND a.bucket_at < p_now - interval '2 hours';
        DELETE FROM pgqueue_activity AS a
        WHERE a.minutes = 10 AND a.bucket_at < p_now - interval '2 hours' AND a.channel IS NOT NULL;
        -- Takes the messages without an archive that became visible too late for a figure.
        WITH late AS (
            DELETE FROM pgqueue_unarchived AS u WHERE u.settled_at < p_now - interval '1 hour'
            RETURNING u.queue, u.channel, u.attempts
        )
        INSERT INTO pgqueue_unarchived_total AS t (queue, channel, messages)
        SELECT l.queue, l.channel, sum(cardinality(l.attempts)) FROM late AS l GROUP BY l.queue, l.channel
        ON CONFLICT (queue, channel) DO UPDATE SET messages = t.messages + excluded.messages;
        DELETE FROM pgqueue_activity AS a WHERE a.minutes IN (10, 60) AND a.bucket_at < p_now - interval '26 hours';
    END IF;
    BEGIN
        -- The timeout is less than deadlock_timeout: else an autovacuum under way would be cancelled for this.
        PERFORM set_config('lock_timeout', '100ms', true);
        PERFORM brin_summarize_new_values(i.indexrelid::regclass)
        FROM pg_index AS i
        JOIN pg_class AS c ON c.oid = i.indexrelid
        JOIN pg_am AS m ON m.oid = c.relam
        WHERE i.indrelid = to_regclass('pgqueue_archived_message_' || to_char(p_now AT TIME ZONE 'UTC', 'YYYYMMDD'))
            AND m.amname = 'brin';
        PERFORM set_config('lock_timeout', v_timeout, true);
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
END;
$$;
