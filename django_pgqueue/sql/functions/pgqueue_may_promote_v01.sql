-- Returns whether a message of these queues waits for a shared limit that has room, and its channel is served. After an
-- empty answer, another transaction holds the limit.
-- It looks at 100 limits, and at 100 channels of each, those whose turn is next. When it does not see one beyond these,
-- a worker sleeps until the next tick makes the message ready, or until it looks again.
-- Locks: none.
CREATE FUNCTION pgqueue_may_promote(p_queues text[])
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    -- The clock is in a variable, because a call with a volatile function does not become a part of the statement.
    v_now timestamptz := clock_timestamp();
    v_open text[] := ARRAY(SELECT u.name FROM unnest(p_queues) AS u (name) WHERE pgqueue_queue_is_open(u.name));
BEGIN
    RETURN EXISTS (
        SELECT
        FROM pgqueue_waiting_limits(0, 100) AS w (id)
        JOIN pgqueue_limit AS l ON l.id = w.id
        CROSS JOIN LATERAL pgqueue_limit_room(l, v_now) AS r
        WHERE (r.places > 0) IS NOT FALSE AND (r.cost > 0) IS NOT FALSE AND (r.tokens >= 1) IS NOT FALSE
            AND NOT r.saves
            AND EXISTS (
                SELECT
                FROM pgqueue_waiting_channels(w.id, coalesce(r.turn, 0), 100) AS n (channel_id)
                JOIN pgqueue_channel AS c ON c.id = n.channel_id
                WHERE c.queue = ANY (v_open) AND NOT pgqueue_is_parked(c.id)
                    AND EXISTS (
                        SELECT FROM pgqueue_message AS m
                        WHERE m.waits_for = w.id AND m.channel_id = n.channel_id AND m.dequeue_at <= v_now)));
END;
$$;
