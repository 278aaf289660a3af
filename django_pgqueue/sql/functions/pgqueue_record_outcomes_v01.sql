-- Records how messages of handlers with a breaker ended: failed, or completed.
-- Caller: pgqueue_complete, pgqueue_complete_many, pgqueue_retry.
-- The caller settles the messages in the same transaction. A success is recorded only when the last outcome was a
-- failure, so handlers that fail seldom pay little. While a breaker is open, only the message that tries counts; after
-- that, only those that were leased after it was closed.
-- Locks: none (append only), so that a settlement waits neither for a dequeue nor for another settlement.
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
        CROSS JOIN LATERAL (SELECT CASE WHEN b.breaker_per = 'channel' THEN u.channel_id ELSE 0 END) AS k (channel_id)
        LEFT JOIN pgqueue_limit AS c ON c.breaker_id = b.id AND c.channel_id = k.channel_id
        CROSS JOIN LATERAL (
            SELECT coalesce(b.open_until, c.open_until) IS NOT NULL AS open,
                coalesce(b.closed_at, c.closed_at, '-infinity') AS closed_at
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
        RETURNING tried
    )
    SELECT bool_or(r.tried) INTO v_tried FROM recorded AS r;
    IF v_tried AND NOT p_failed THEN
        PERFORM pgqueue_wake_waiting();
    END IF;
END;
$$;
