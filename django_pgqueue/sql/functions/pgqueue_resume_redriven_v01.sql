-- Resumes the ordered channels that are paused because of these dead letters, which are redriven now.
-- p_ids: the dead letters; p_channel_ids: the channels to which they go. A channel that an operator has paused since,
-- with another reason, stays paused, and so does one that another transaction edits right now.
-- Locks: the channels' rows, SKIP LOCKED, because the caller may hold counts of channels.
CREATE FUNCTION pgqueue_resume_redriven(p_ids bigint[], p_channel_ids bigint[])
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    UPDATE pgqueue_channel AS c
    SET paused_at = NULL, pause_reason = '', paused_until = NULL
    WHERE c.id = ANY (ARRAY(
        SELECT n.id
        FROM pgqueue_channel AS n
        WHERE n.id = ANY (p_channel_ids) AND n.paused_at IS NOT NULL AND n.pause_reason = ANY (ARRAY(
            SELECT pgqueue_dead_pause_reason(d.id, d.reason) FROM pgqueue_dead_letter AS d WHERE d.id = ANY (p_ids)))
        FOR NO KEY UPDATE SKIP LOCKED));
END;
$$;
