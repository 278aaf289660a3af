-- Removes the ready and scheduled messages of a channel; they go to the archive as purged. Leased messages are left to
-- their holders.
-- A call removes at most p_limit: call again while it returns more than 0.
-- Returns purged and the number of messages; or the refusal PGQ03 or PGQ07 (p_limit is negative).
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_channel_purge(
    p_queue text,
    p_channel text,
    p_limit integer DEFAULT 10000,
    OUT messages integer,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_channel_id bigint;
BEGIN
    SELECT c.id INTO v_channel_id FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.name = p_channel;
    IF p_limit < 0 THEN
        refusal := pgqueue_refusal('PGQ07', format('a purge takes a limit of 0 or more, not %s', p_limit));
    ELSIF v_channel_id IS NULL THEN
        SELECT m.refusal INTO refusal FROM pgqueue_missing_channel(p_queue, p_channel, false) AS m;
    ELSE
        -- Reads each status by its index: no other index finds the messages of one channel, and a scan by ids reads
        -- those of all channels.
        messages := coalesce(cardinality(
            pgqueue_archive(pgqueue_lock_unleased(ARRAY[v_channel_id], p_limit), 'purged')), 0);
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'purged');
END;
$$;
