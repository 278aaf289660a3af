-- Returns whether a stream consumes a channel: it has claimed messages of the channel or of its whole queue in the last
-- minute.
-- The caller uses it where the app of the pipeline is installed.
-- Locks: none.
CREATE FUNCTION pgqueue_is_streamed(p_queue text, p_channel text)
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgqueue_stream AS s
        WHERE s.queue = p_queue AND coalesce(s.channel, p_channel) = p_channel
            AND s.claimed_at > clock_timestamp() - interval '1 minute');
END;
$$;
