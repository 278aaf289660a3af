-- Returns the channels of the messages in a stage, each once.
-- Locks: none.
CREATE FUNCTION pgqueue_ingest_channels(p_stage bigint)
RETURNS TABLE (queue text, channel text)
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT DISTINCT coalesce(s.queue, ''default''), coalesce(s.channel, ''default'') FROM pgqueue_stage_%s AS s',
        p_stage);
END;
$$;
