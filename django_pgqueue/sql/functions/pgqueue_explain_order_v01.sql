-- Explains until when a message holds an ordered channel, because it failed or was deferred.
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
    v_current record;
    v_behind integer;
BEGIN
    -- An error is that of the last delivery if both began at the same time. The casts are as in pgqueue_announce.
    SELECT m.id, m.held_until, m.attempts,
        (m.errors -> -1 ->> 'leased_at')::timestamptz IS NOT DISTINCT FROM m.last_leased_at AS failed
    INTO v_current
    FROM (
        SELECT l.current_id FROM pgqueue_lane AS l
        WHERE l.channel_id = p_channel.id ORDER BY l.seq DESC LIMIT 1
    ) AS l
    JOIN pgqueue_message AS m ON m.id = l.current_id AND m.channel_id = p_channel.id AND m.status::integer = 1
    WHERE p_channel.ordered AND m.held_until > clock_timestamp();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT count(*) INTO v_behind
    FROM (
        SELECT FROM pgqueue_message AS m
        WHERE m.channel_id = p_channel.id AND m.status = 1 AND m.id <> v_current.id LIMIT v_most
    ) AS n;
    RETURN QUERY SELECT 'ordered',
        format('Channel %s is ordered, and message %s holds it until %s, because %s. '
            'Messages that wait behind it: %s%s.',
            p_channel.name, v_current.id, date_trunc('second', v_current.held_until),
            CASE WHEN v_current.failed THEN format('its attempt %s failed', v_current.attempts)
                ELSE 'it was deferred' END,
            CASE WHEN v_behind = v_most THEN 'at least ' END, v_behind),
        jsonb_build_object('message', v_current.id, 'held_until', v_current.held_until, 'attempt', v_current.attempts,
            'failed', v_current.failed, 'behind', v_behind);
END;
$$;
