-- Explains until when a message holds an ordered channel, because it failed, was deferred, or waits for a limit.
-- Caller: pgqueue_explain_obstacles.
-- The messages that wait behind it are counted to 1,000.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_order(p_channel pgqueue_channel)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_most CONSTANT integer := 1000;
    v_message pgqueue_message;
    v_why text;
    v_behind integer;
BEGIN
    -- The cast is as in pgqueue_announce.
    SELECT m.* INTO v_message
    FROM (
        SELECT l.current_id FROM pgqueue_lane AS l
        WHERE l.channel_id = p_channel.id ORDER BY l.seq DESC LIMIT 1
    ) AS l
    JOIN pgqueue_message AS m ON m.id = l.current_id AND m.channel_id = p_channel.id AND m.status::integer = 1
    WHERE p_channel.ordered AND m.held_until > clock_timestamp();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- A message whose limit has no room holds the channel for a second. An error is that of the last delivery if both
    -- began at the same time.
    v_why := CASE
        WHEN v_message.held_until < clock_timestamp() + interval '1 second'
            AND EXISTS (SELECT FROM pgqueue_explain_shared_limits(v_message)) THEN 'limit'
        WHEN (v_message.errors -> -1 ->> 'leased_at')::timestamptz IS NOT DISTINCT FROM v_message.last_leased_at
            THEN 'failed'
        ELSE 'deferred'
    END;
    SELECT count(*) INTO v_behind
    FROM (
        SELECT FROM pgqueue_message AS m
        WHERE m.channel_id = p_channel.id AND m.status = 1 AND m.id <> v_message.id LIMIT v_most
    ) AS n;
    RETURN QUERY SELECT 'ordered',
        format('Channel %s is ordered, and message %s holds it until %s, because %s. '
            'Messages that wait behind it: %s%s.',
            p_channel.name, v_message.id, date_trunc('second', v_message.held_until),
            CASE v_why
                WHEN 'limit' THEN 'a limit, a pause or a breaker of its handler has no room for it'
                WHEN 'failed' THEN format('its attempt %s failed', v_message.attempts)
                    || coalesce(' with ' || left(v_message.errors -> -1 ->> 'type', 200), '')
                ELSE 'it was deferred'
            END,
            CASE WHEN v_behind = v_most THEN 'at least ' END, v_behind),
        jsonb_build_object('message', v_message.id, 'held_until', v_message.held_until,
            'attempt', v_message.attempts, 'failed', v_why = 'failed', 'behind', v_behind);
END;
$$;
