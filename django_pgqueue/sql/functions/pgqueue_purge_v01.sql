-- Removes the ready and scheduled messages of a channel; they go to the archive as purged. What is leased is left to its holder.
-- Caller: an operator. At most p_limit a call: call again while it returns more than 0. Locks: messages, SKIP LOCKED. Errors: PGQ03.
CREATE FUNCTION pgqueue_purge(p_channel text, p_queue text DEFAULT 'default', p_limit integer DEFAULT 10000)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_channel_id bigint;
BEGIN
    SELECT c.id INTO v_channel_id FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.name = p_channel;
    IF NOT FOUND THEN
        PERFORM pgqueue_missing_channel(p_channel, p_queue, false);
    END IF;
    RETURN pgqueue_archive(
        ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = v_channel_id AND m.status IN (1, 3)
            ORDER BY m.id LIMIT p_limit
            FOR UPDATE SKIP LOCKED),
        'purged');
END;
$$;
