-- Forgets the messages that were to follow batches on these channels, because they may have data of a tenant; or counts
-- the batches. The batches stay: nothing follows them there. It deletes the progress of messages of these channels.
-- Returns how many batches.
-- Locks: the batches; it waits for as long as its caller allows.
CREATE FUNCTION pgqueue_batch_erase(p_queue text, p_channels text[], p_dry_run boolean)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT b.id FROM pgqueue_batch AS b
        WHERE b.on_done ->> 'queue' = p_queue AND b.on_done ->> 'channel' = ANY (p_channels)
            OR b.on_dead ->> 'queue' = p_queue AND b.on_dead ->> 'channel' = ANY (p_channels)
        ORDER BY b.id);
    IF NOT p_dry_run THEN
        UPDATE pgqueue_batch AS b
        SET on_done = CASE WHEN b.on_done ->> 'queue' = p_queue AND b.on_done ->> 'channel' = ANY (p_channels)
                THEN NULL ELSE b.on_done END,
            on_dead = CASE WHEN b.on_dead ->> 'queue' = p_queue AND b.on_dead ->> 'channel' = ANY (p_channels)
                THEN NULL ELSE b.on_dead END,
            refusal = NULL
        WHERE b.id = ANY (v_ids);
        DELETE FROM pgqueue_progress AS p
        WHERE p.channel_id = ANY (ARRAY(
            SELECT c.id FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.name = ANY (p_channels)));
    END IF;
    RETURN cardinality(v_ids);
END;
$$;
