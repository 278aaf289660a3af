-- Resumes a paused channel; its lane goes to the tail of the line.
-- Returns resumed; or the refusal PGQ03.
-- Locks: the channel's row.
CREATE FUNCTION pgqueue_channel_resume(p_queue text, p_channel text, OUT outcome text, OUT refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    UPDATE pgqueue_channel AS c SET paused_at = NULL, pause_reason = '', paused_until = NULL
    WHERE c.queue = p_queue AND c.name = p_channel;
    IF NOT FOUND THEN
        SELECT m.refusal INTO refusal FROM pgqueue_missing_channel(p_queue, p_channel, false) AS m;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'resumed');
END;
$$;
