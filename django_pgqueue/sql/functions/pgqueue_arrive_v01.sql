-- Counts messages that an INSERT has brought to channels, appends an arrival of each channel for the next dequeue, and
-- wakes the workers that sleep on its queue.
-- The arrays pair up. p_messages: how many there are; p_ranks, p_ats, p_ids: no ready message of them sorts before this
-- key, NULL without any; p_waits: some wait for shared limits.
-- Returns the channels that are full, and whose policy is that older messages leave (drop_oldest, replace).
-- Locks: as pgqueue_reserve (lock order, step 1), in channel order.
-- Errors: PGQ03, PGQ04, PGQ05, PGQ06.
CREATE FUNCTION pgqueue_arrive(
    p_channel_ids bigint[], p_messages bigint[], p_ranks integer[], p_ats timestamptz[], p_ids bigint[],
    p_waits boolean[]
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_queue text;
    v_arrival record;
    v_refusal jsonb;
    v_full bigint[] := '{}';
BEGIN
    FOR v_arrival IN
        SELECT u.*, c.queue, c.released_at, c.max_size, c.full_policy
        FROM unnest(p_channel_ids, p_messages, p_ranks, p_ats, p_ids, p_waits)
            AS u (channel_id, messages, rank, at, id, waits)
        LEFT JOIN pgqueue_channel AS c ON c.id = u.channel_id
        ORDER BY u.channel_id
    LOOP
        IF v_arrival.queue IS NULL THEN
            RAISE EXCEPTION 'channel % does not exist', v_arrival.channel_id
                USING ERRCODE = 'PGQ03', HINT = 'Create the channel first: pgqueue_channel_set(queue, channel).';
        ELSIF v_arrival.released_at IS NOT NULL THEN
            PERFORM pgqueue_raise(pgqueue_channel_refusal('PGQ05', v_arrival.channel_id));
        ELSIF v_arrival.max_size IS NOT NULL THEN
            v_refusal := (pgqueue_reserve(v_arrival.channel_id, v_arrival.max_size, v_arrival.messages)).refusal;
            IF v_refusal ->> 'outcome' = 'full' AND v_arrival.full_policy IN ('drop_oldest', 'replace') THEN
                v_full := v_full || v_arrival.channel_id;
            ELSE
                PERFORM pgqueue_raise(v_refusal);
            END IF;
        END IF;
        IF v_arrival.id IS NOT NULL THEN
            INSERT INTO pgqueue_arrival (queue, channel_id, floor_rank, floor_at, floor_id)
            VALUES (v_arrival.queue, v_arrival.channel_id, v_arrival.rank, v_arrival.at, v_arrival.id);
        END IF;
        IF (v_arrival.id IS NOT NULL OR v_arrival.waits) AND v_arrival.queue IS DISTINCT FROM v_queue THEN
            v_queue := v_arrival.queue;
            PERFORM pgqueue_wake(v_queue);
        END IF;
    END LOOP;
    RETURN v_full;
END;
$$;
