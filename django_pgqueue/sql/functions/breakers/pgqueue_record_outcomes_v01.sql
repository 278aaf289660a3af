-- Records how messages of handlers with a breaker ended: failed, or completed.
-- The caller settles the messages in the same transaction. A success is recorded only when the last outcome was a
-- failure, so handlers that fail seldom pay little. While a breaker is open, only the message that tries counts; after
-- that, only those that were leased after it was closed. If the outcomes say that the breaker opens or closes, that is
-- written down at once, so that workers give back what they have not started; if another transaction holds its row, or
-- this one has an older snapshot, the next dequeue of its messages does it.
-- Locks: rows of breakers that open or close, SKIP LOCKED, so that a settlement waits neither for a dequeue nor for
--   another settlement.
CREATE FUNCTION pgqueue_record_outcomes(p_ended pgqueue_ended[], p_failed boolean)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_tried boolean;
    v_limit_ids bigint[];
    v_channel_ids bigint[];
    v_ids bigint[];
    v_breaker pgqueue_limit;
BEGIN
    -- Appends the outcomes that count.
    WITH recorded AS (
        INSERT INTO pgqueue_breaker_outcome (limit_id, channel_id, message_id, leased_at, ended_at, failed, tried)
        -- One success for each breaker says all.
        SELECT DISTINCT ON (b.id, k.channel_id, CASE WHEN p_failed THEN u.id END)
            b.id, k.channel_id, u.id, u.leased_at, v_now, p_failed, t.tried
        FROM unnest(p_ended) AS u
        JOIN pgqueue_limit_handler AS h ON h.handler = u.handler AND h.breaker
        JOIN pgqueue_limit AS b ON b.id = h.limit_id
        CROSS JOIN LATERAL (SELECT CASE WHEN b.per = 'channel' THEN u.channel_id ELSE 0 END) AS k (channel_id)
        LEFT JOIN pgqueue_limit AS c ON c.parent_id = b.id AND c.channel_id = k.channel_id
        CROSS JOIN LATERAL (
            SELECT coalesce(b.open_until, c.open_until) IS NOT NULL AS open,
                coalesce(greatest(b.closed_at, c.closed_at), '-infinity') AS closed_at
        ) AS s
        CROSS JOIN LATERAL (
            SELECT s.open AND EXISTS (SELECT FROM pgqueue_place AS p
                WHERE p.limit_id = coalesce(c.id, b.id) AND p.placed_at = u.leased_at AND p.message_id = u.id) AS tried
        ) AS t
        WHERE CASE
                WHEN s.open THEN t.tried
                WHEN p_failed THEN u.leased_at >= s.closed_at
                ELSE coalesce((
                    SELECT o.failed FROM pgqueue_breaker_outcome AS o
                    WHERE o.limit_id = b.id AND o.channel_id = k.channel_id ORDER BY o.ended_at DESC LIMIT 1), false)
            END
        ORDER BY b.id, k.channel_id, CASE WHEN p_failed THEN u.id END, t.tried DESC
        RETURNING limit_id, channel_id, tried
    )
    SELECT bool_or(r.tried), array_agg(r.limit_id), array_agg(r.channel_id) INTO v_tried, v_limit_ids, v_channel_ids
    FROM recorded AS r;
    IF (p_failed OR v_tried) AND current_setting('transaction_isolation') = 'read committed' THEN
        v_ids := ARRAY(
            SELECT pgqueue_watch_breaker(u.id, u.channel_id)
            FROM (SELECT DISTINCT n.* FROM unnest(v_limit_ids, v_channel_ids) AS n (id, channel_id)) AS u);
        FOR v_breaker IN
            SELECT l.* FROM pgqueue_limit AS l WHERE l.id = ANY (v_ids) ORDER BY l.id FOR NO KEY UPDATE SKIP LOCKED
        LOOP
            PERFORM pgqueue_turn_breaker(v_breaker, v_now);
        END LOOP;
    END IF;
    IF v_tried AND NOT p_failed THEN
        PERFORM pgqueue_wake_waiting();
    END IF;
END;
$$;
