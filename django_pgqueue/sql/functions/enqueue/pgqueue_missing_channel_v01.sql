-- Creates the channel that a verb did not find, if p_create allows it; otherwise returns why it cannot be used.
-- p_create: create a channel that does not exist, without limits.
-- Returns the channel; or the refusal: PGQ03 not found, PGQ05 released, PGQ07 invalid name.
-- Locks: two transactions that create the same channel wait for each other.
CREATE FUNCTION pgqueue_missing_channel(
    p_queue text,
    p_channel text,
    p_create boolean,
    OUT id bigint,
    OUT max_size integer,
    OUT full_policy text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_released_at timestamptz;
    v_elsewhere text;
BEGIN
    SELECT c.id, c.max_size, c.full_policy, c.released_at INTO id, max_size, full_policy, v_released_at
    FROM pgqueue_channel AS c
    WHERE c.queue = p_queue AND c.name = p_channel;
    IF v_released_at IS NOT NULL THEN
        refusal := pgqueue_channel_refusal('PGQ05', id);
    ELSIF id IS NULL AND p_create THEN
        SELECT s.id, s.refusal INTO id, refusal FROM pgqueue_channel_set(p_queue, p_channel) AS s;
    ELSIF id IS NULL THEN
        -- Looks for the name in one queue after the other: the caller may have left the queue out.
        WITH RECURSIVE queue (name) AS (
            SELECT min(c.queue) FROM pgqueue_channel AS c
            UNION ALL
            SELECT (SELECT min(c.queue) FROM pgqueue_channel AS c WHERE c.queue > q.name)
            FROM queue AS q
            WHERE q.name IS NOT NULL
        )
        SELECT q.name INTO v_elsewhere FROM queue AS q
        WHERE EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.queue = q.name AND c.name = p_channel)
        LIMIT 1;
        refusal := pgqueue_refusal('PGQ03',
            format('channel "%s" does not exist in queue "%s"', left(p_channel, 200), left(p_queue, 100)),
            CASE WHEN v_elsewhere IS NOT NULL THEN format('It exists in queue "%s": name that queue', v_elsewhere)
                ELSE 'Check the name' END
            || format(', or create it with pgqueue_channel_set(p_queue => %L, p_channel => %L), in the admin, '
                'or set AUTO_CREATE_CHANNELS.',
                left(p_queue, 100), left(p_channel, 200)));
    END IF;
END;
$$;
