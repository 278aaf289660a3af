-- Explains what holds up all messages of a channel now: pauses, a message that holds the ordered channel, missing
-- workers, limits. Returns no row if there is no obstacle.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_obstacles(p_channel_id bigint, p_alive interval)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_channel pgqueue_channel;
BEGIN
    SELECT c.* INTO v_channel FROM pgqueue_channel AS c WHERE c.id = p_channel_id;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'channel_missing',
            format('Its channel (id %s) was deleted by hand: no worker serves it. '
                'Make a channel with this id, or cancel the message.',
                p_channel_id),
            jsonb_build_object('channel_id', p_channel_id);
        RETURN;
    END IF;
    RETURN QUERY SELECT 'queue_paused',
        format('Queue %s is paused since %s%s.%s', q.name, date_trunc('second', q.paused_at),
            ' until ' || date_trunc('second', q.paused_until), ' Reason: ' || left(nullif(q.pause_reason, ''), 500)),
        jsonb_build_object('queue', q.name, 'paused_at', q.paused_at, 'until', q.paused_until, 'reason', q.pause_reason)
    FROM pgqueue_queue AS q
    WHERE q.name = v_channel.queue AND q.paused_at IS NOT NULL;
    -- A released channel drains without its limits, also when it is paused.
    IF v_channel.paused_at IS NOT NULL AND v_channel.released_at IS NULL THEN
        RETURN QUERY SELECT 'channel_paused',
            format('Channel %s of queue %s is paused since %s%s.%s', v_channel.name, v_channel.queue,
                date_trunc('second', v_channel.paused_at), ' until ' || date_trunc('second', v_channel.paused_until),
                ' Reason: ' || left(nullif(v_channel.pause_reason, ''), 500)),
            jsonb_build_object('queue', v_channel.queue, 'channel', v_channel.name, 'paused_at', v_channel.paused_at,
                'until', v_channel.paused_until, 'reason', v_channel.pause_reason);
    END IF;
    RETURN QUERY SELECT r.* FROM pgqueue_explain_order(v_channel) AS r;
    RETURN QUERY SELECT w.* FROM pgqueue_explain_workers(v_channel.queue, v_channel.name, p_alive) AS w;
    RETURN QUERY SELECT q.* FROM pgqueue_explain_queue(v_channel) AS q;
    IF v_channel.released_at IS NULL THEN
        RETURN QUERY SELECT l.* FROM pgqueue_explain_limits(v_channel) AS l;
    END IF;
END;
$$;
