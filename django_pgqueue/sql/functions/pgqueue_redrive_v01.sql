-- Gives dead letters a new life: each becomes a new message that names the old one, with all its attempts; the dead letter keeps the new id.
-- Caller: an operator. p_channel: another channel of the same queue; p_payload replaces the payload. Once only: a dead letter that was redriven
--   is left out. Returns old and new ids.
-- Locks: the dead letters, SKIP LOCKED, in the order of ids; then as enqueue. Errors: PGQ03, PGQ04, PGQ05 of the channel.
CREATE FUNCTION pgqueue_redrive(p_ids bigint[], p_channel text DEFAULT NULL, p_payload jsonb DEFAULT NULL)
RETURNS TABLE (old_id bigint, new_id bigint)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_letter record;
    v_channel_id bigint;
BEGIN
    FOR v_letter IN
        SELECT d.* FROM pgqueue_dead_letter AS d
        WHERE d.id = ANY (p_ids) AND d.redriven_at IS NULL
        ORDER BY d.queue, d.channel, d.id
        FOR UPDATE SKIP LOCKED
    LOOP
        SELECT c.id INTO v_channel_id FROM pgqueue_channel AS c
        WHERE c.queue = v_letter.queue AND c.name = coalesce(p_channel, v_letter.channel);
        IF NOT FOUND THEN
            PERFORM pgqueue_missing_channel(coalesce(p_channel, v_letter.channel), v_letter.queue, false);
        END IF;
        -- The dedupe key stays behind: the work may have been asked for again since.
        INSERT INTO pgqueue_message (
            channel_id, handler, payload, body, headers, priority, max_attempts, backoff, backoff_factor, backoff_longest, state,
            redriven_from)
        VALUES (
            v_channel_id, v_letter.handler, coalesce(p_payload, v_letter.payload), v_letter.body, v_letter.headers, v_letter.priority,
            v_letter.max_attempts, v_letter.backoff, v_letter.backoff_factor, v_letter.backoff_longest, v_letter.state, v_letter.id)
        RETURNING pgqueue_message.id INTO new_id;
        UPDATE pgqueue_dead_letter AS d SET redriven_at = clock_timestamp(), redriven_to = new_id WHERE d.id = v_letter.id;
        old_id := v_letter.id;
        RETURN NEXT;
    END LOOP;
END;
$$;
