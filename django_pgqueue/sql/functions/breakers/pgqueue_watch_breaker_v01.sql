-- Returns the id of the breaker that a message must ask before it is leased; NULL while it is closed.
-- A closed breaker is read without a lock, so its dequeues do not wait for each other. A breaker by channel gets its
-- row when it opens for the first time. If another transaction holds the handler's row, the message waits for that.
-- p_id: the row of the handler's breaker.
-- Locks: the row of the handler's breaker, SKIP LOCKED, when it opens for a channel for the first time.
CREATE FUNCTION pgqueue_watch_breaker(p_id bigint, p_channel_id bigint)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_breaker pgqueue_limit;
    v_channel_id bigint;
    v_id bigint := p_id;
BEGIN
    SELECT l.* INTO v_breaker FROM pgqueue_limit AS l WHERE l.id = p_id;
    v_channel_id := CASE WHEN v_breaker.per = 'channel' THEN p_channel_id ELSE 0 END;
    IF v_channel_id <> 0 THEN
        SELECT l.* INTO v_breaker FROM (
            (SELECT c.* FROM pgqueue_limit AS c WHERE c.parent_id = p_id AND c.channel_id = v_channel_id)
            UNION ALL
            SELECT v_breaker.*
            LIMIT 1
        ) AS l;
        v_id := v_breaker.id;
    END IF;
    IF v_breaker.open_until IS NULL AND pgqueue_breaker_until(v_breaker, v_channel_id) IS NULL THEN
        RETURN NULL;
    END IF;
    IF v_channel_id <> 0 AND v_id = p_id THEN
        PERFORM FROM pgqueue_limit AS l WHERE l.id = p_id FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            v_id := pgqueue_limit_of_channel(v_breaker, v_channel_id);
        END IF;
    END IF;
    RETURN v_id;
END;
$$;
