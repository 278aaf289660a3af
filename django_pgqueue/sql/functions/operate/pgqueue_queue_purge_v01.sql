-- Removes the ready and scheduled messages of all channels of a queue; they go to the archive as purged. Leased
-- messages are left to their holders.
-- A call removes at most p_limit: call again while it returns more than 0.
-- Returns purged and the number of messages; or the refusal: PGQ03 there is no such queue, PGQ07 (p_limit is negative).
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_queue_purge(
    p_queue text,
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
BEGIN
    refusal := pgqueue_missing_queue(p_queue);
    IF p_limit < 0 THEN
        refusal := pgqueue_refusal('PGQ07', format('a purge takes a limit of 0 or more, not %s', p_limit));
    END IF;
    IF refusal IS NULL THEN
        messages := coalesce(cardinality(pgqueue_archive(pgqueue_lock_unleased(
            ARRAY(SELECT c.id FROM pgqueue_channel AS c WHERE c.queue = p_queue), p_limit), 'purged')), 0);
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'purged');
END;
$$;
