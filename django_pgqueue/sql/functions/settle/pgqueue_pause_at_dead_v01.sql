-- Pauses ordered channels that have the policy on_dead = pause, because a message of them became a dead letter, which
-- the reason names. A dead letter pauses its channel once: after pgqueue_channel_resume the channel goes on without it.
-- p_channel_ids and p_ids pair up: the channels, and the messages that left them. Dead letters that an operator has
-- made (discarded), and those that have been redriven, pause nothing.
-- Returns whether there is a channel that has to be paused. If another transaction edits it at this moment, it is not
--   paused yet: pgqueue_take_ordered gives none of its messages, and pauses it then.
-- Locks: the channels' rows, SKIP LOCKED, because a settlement must not wait for them.
CREATE FUNCTION pgqueue_pause_at_dead(p_channel_ids bigint[], p_ids bigint[])
RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_dead record;
    v_found boolean := false;
BEGIN
    FOR v_dead IN
        SELECT c.id AS channel_id, d.id, d.reason, d.dead_at
        FROM unnest(p_channel_ids, p_ids) AS u (channel_id, id)
        JOIN pgqueue_channel AS c ON c.id = u.channel_id AND c.ordered AND c.on_dead = 'pause'
            AND c.released_at IS NULL AND c.stopped_by IS DISTINCT FROM u.id
        JOIN pgqueue_dead_letter AS d ON d.id = u.id AND d.redriven_at IS NULL AND d.reason <> 'discarded'
        ORDER BY c.id, d.id
    LOOP
        v_found := true;
        UPDATE pgqueue_channel AS c
        SET paused_at = coalesce(c.paused_at, v_dead.dead_at),
            pause_reason = concat_ws('; ',
                CASE WHEN c.paused_at IS NOT NULL THEN coalesce(nullif(c.pause_reason, ''), 'paused') END,
                pgqueue_dead_pause_reason(v_dead.id, v_dead.reason)),
            paused_until = NULL,
            stopped_by = v_dead.id
        WHERE c.id = ANY (ARRAY(
            SELECT n.id FROM pgqueue_channel AS n WHERE n.id = v_dead.channel_id FOR NO KEY UPDATE SKIP LOCKED));
    END LOOP;
    RETURN v_found;
END;
$$;
