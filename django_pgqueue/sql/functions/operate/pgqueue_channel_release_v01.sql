-- Releases a channel: it takes no new messages, its messages drain without limits, then pgqueue_remove_released removes
-- the row.
-- Returns released; or the refusal PGQ03.
-- Locks: the channel's row.
CREATE FUNCTION pgqueue_channel_release(p_queue text, p_channel text, OUT outcome text, OUT refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    UPDATE pgqueue_channel AS c SET released_at = coalesce(c.released_at, clock_timestamp())
    WHERE c.queue = p_queue AND c.name = p_channel;
    IF NOT FOUND THEN
        SELECT m.refusal INTO refusal FROM pgqueue_missing_channel(p_queue, p_channel, false) AS m;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'released');
END;
$$;
