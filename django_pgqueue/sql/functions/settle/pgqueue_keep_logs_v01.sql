-- Keeps what handlers have logged, in the transaction that has settled their messages, or given them back.
-- p_ids, p_tokens, p_attempts, p_logs pair up; an empty log is NULL. A lease has one log. Of a message that comes back
-- again and again, the newest 50 are kept.
-- A message whose payload the archive does not keep (archive = outcome, none) keeps no log either: those of its earlier
-- deliveries are deleted.
-- Locks: the rows of the logs, which only settlements of the same message and erasures write.
CREATE FUNCTION pgqueue_keep_logs(p_ids bigint[], p_tokens uuid[], p_attempts integer[], p_logs jsonb[])
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    -- A settlement that is repeated after its connection broke finds what the first one has archived.
    v_since timestamptz := clock_timestamp() - interval '1 day';
BEGIN
    -- Finds the messages that keep their payloads, wherever they are now.
    WITH placed AS (
        SELECT m.id, c.queue, c.name AS channel
        FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
        WHERE m.id = ANY (p_ids)
        UNION ALL
        SELECT d.id, d.queue, d.channel FROM pgqueue_dead_letter AS d WHERE d.id = ANY (p_ids)
        UNION ALL
        SELECT a.id, a.queue, a.channel FROM pgqueue_archived_message AS a
        WHERE a.id = ANY (p_ids) AND a.archived_at > v_since AND a.payload IS NOT NULL
    ),
    -- Forgets the others, and the oldest logs of a message.
    forgotten AS (
        DELETE FROM pgqueue_log AS l
        USING (
            SELECT o.message_id, o.lease_token,
                row_number() OVER (PARTITION BY o.message_id ORDER BY o.written_at DESC) >= 50 AS is_old
            FROM pgqueue_log AS o WHERE o.message_id = ANY (p_ids)
        ) AS o
        WHERE l.message_id = o.message_id AND l.lease_token = o.lease_token
            AND (o.is_old OR NOT EXISTS (SELECT FROM placed AS p WHERE p.id = o.message_id))
    )
    INSERT INTO pgqueue_log AS l (message_id, lease_token, attempt, queue, channel, log)
    SELECT u.id, u.token, u.attempt, p.queue, p.channel, u.log
    FROM unnest(p_ids, p_tokens, p_attempts, p_logs) AS u (id, token, attempt, log) JOIN placed AS p ON p.id = u.id
    WHERE u.log IS NOT NULL
    ON CONFLICT (message_id, lease_token) DO UPDATE SET log = excluded.log, written_at = clock_timestamp();
END;
$$;
