-- Explains which message holds an ordered channel, and until when, because it failed, was deferred, or waits for a
-- shared limit.
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
    JOIN pgqueue_message AS m ON m.id = l.current_id AND m.channel_id = p_channel.id
    WHERE p_channel.ordered
        AND (m.status::integer = 1 AND m.held_until > clock_timestamp() OR m.status::integer = 3 AND m.waits_for >= 0);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- An error is that of the last delivery if both began at the same time.
    v_why := CASE
        WHEN v_message.waits_for >= 0 THEN 'limit'
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
        format('Channel %s is ordered, and message %s holds it%s, because %s. '
            'Messages that wait behind it: %s%s.',
            p_channel.name, v_message.id,
            CASE WHEN v_why <> 'limit' THEN ' until ' || date_trunc('second', v_message.held_until)::text END,
            CASE v_why
                WHEN 'limit' THEN 'it waits for ' || pgqueue_limit_label(v_message.waits_for)
                WHEN 'failed' THEN format('its attempt %s failed', v_message.attempts)
                    || coalesce(' with ' || left(v_message.errors -> -1 ->> 'type', 200), '')
                ELSE 'it was deferred'
            END,
            CASE WHEN v_behind = v_most THEN 'at least ' END, v_behind),
        jsonb_build_object('message', v_message.id,
            'held_until', CASE WHEN v_why <> 'limit' THEN v_message.held_until END,
            'attempt', v_message.attempts, 'failed', v_why = 'failed', 'behind', v_behind);
END;
$$;
