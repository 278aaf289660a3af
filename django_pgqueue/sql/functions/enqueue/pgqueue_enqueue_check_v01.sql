-- Returns the refusal of a channel that does not take p_messages more, before anything is written; NULL when it does. A
-- channel refuses because it is full, busy, released or missing, or because its name is invalid.
-- p_create: a channel that does not exist will be created, if its name is valid; p_drops: a full channel whose policy
-- is not error is only locked, and the messages that leave are chosen later; p_wait: as in pgqueue_reserve.
-- Locks: as pgqueue_admit (lock order, step 1): a caller asks for several channels in the order of their ids.
CREATE FUNCTION pgqueue_enqueue_check(
    p_queue text,
    p_channel text,
    p_messages bigint,
    p_create boolean,
    p_drops boolean,
    p_wait interval
)
RETURNS jsonb
LANGUAGE plpgsql
AS $$
DECLARE
    v_channel record;
    v_problem text;
BEGIN
    SELECT c.id, c.max_size, c.full_policy, c.released_at INTO v_channel
    FROM pgqueue_channel AS c
    WHERE c.queue = p_queue AND c.name = p_channel;
    IF v_channel.id IS NULL AND p_create THEN
        v_problem := pgqueue_channel_problem(p_queue, p_channel);
        RETURN CASE WHEN v_problem IS NOT NULL THEN pgqueue_refusal('PGQ07', 'invalid channel: ' || v_problem) END;
    ELSIF v_channel.id IS NULL OR v_channel.released_at IS NOT NULL THEN
        RETURN (pgqueue_missing_channel(p_queue, p_channel, false)).refusal;
    -- A call that brings only duplicates takes no room, even where a lower max_size has left too many.
    ELSIF v_channel.max_size IS NULL OR p_messages = 0 THEN
        RETURN NULL;
    ELSIF p_drops AND v_channel.full_policy <> 'error' THEN
        RETURN (pgqueue_reserve(v_channel.id, v_channel.max_size, 0, p_wait)).refusal;
    END IF;
    RETURN (pgqueue_admit(v_channel.id, v_channel.max_size, 'error', p_messages, p_wait)).refusal;
END;
$$;
