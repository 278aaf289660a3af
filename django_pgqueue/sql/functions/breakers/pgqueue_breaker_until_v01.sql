-- Returns until when a breaker is open; NULL: it is closed. A time that has passed: one message at a time may try.
-- A closed breaker opens when its last breaker_failures outcomes are failures, all within breaker_within. The last try
-- decides about an open one: a success closes it, a failure keeps it open for another breaker_pause. Both follow from
-- the outcomes alone, whenever it is asked, so no settlement has to write the row of the breaker.
-- p_breaker: the breaker's row, or that of its handler while the channel has none; p_channel_id: 0 unless it is kept by
-- channel. It reads no more outcomes than decide.
-- Locks: none.
CREATE FUNCTION pgqueue_breaker_until(p_breaker pgqueue_limit, p_channel_id bigint)
RETURNS timestamptz
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_id bigint := coalesce(p_breaker.parent_id, p_breaker.id);
    v_last record;
BEGIN
    IF p_breaker.open_until IS NULL THEN
        SELECT count(*) AS count, bool_and(o.failed) AS failed, min(o.ended_at) AS first, max(o.ended_at) AS last
        INTO v_last
        FROM (
            SELECT n.ended_at, n.failed FROM pgqueue_breaker_outcome AS n
            WHERE n.limit_id = v_id AND n.channel_id = p_channel_id
                AND n.ended_at > coalesce(p_breaker.closed_at, '-infinity')
            ORDER BY n.ended_at DESC LIMIT p_breaker.breaker_failures
        ) AS o;
        RETURN CASE WHEN v_last.count = p_breaker.breaker_failures AND v_last.failed
            AND v_last.last - v_last.first <= p_breaker.breaker_within THEN v_last.last + p_breaker.breaker_pause END;
    END IF;
    SELECT o.failed, o.ended_at INTO v_last FROM pgqueue_breaker_outcome AS o
    WHERE o.limit_id = v_id AND o.channel_id = p_channel_id AND o.ended_at > p_breaker.opened_at AND o.tried
    ORDER BY o.ended_at DESC LIMIT 1;
    RETURN CASE
        WHEN NOT FOUND THEN p_breaker.open_until
        WHEN v_last.failed THEN greatest(p_breaker.open_until, v_last.ended_at + p_breaker.breaker_pause)
    END;
END;
$$;
