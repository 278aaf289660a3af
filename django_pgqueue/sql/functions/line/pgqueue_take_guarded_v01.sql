-- Takes messages of a queue that is paused, has limits, or serves by share: asks what the queue allows, takes that
-- much, and lists the messages at the gate of the queue.
-- The parameters and results are those of pgqueue_take; ids is NULL while another transaction holds the
-- gate. With p_channel_id the share of the channel does not matter, only max_share: no other channel could have the
-- message.
-- Locks: the queue's gate, then as pgqueue_take, all SKIP LOCKED.
CREATE FUNCTION pgqueue_take_guarded(
    p_queue text,
    p_limit integer,
    p_channel_id bigint,
    p_among bigint[],
    OUT ids bigint[],
    OUT taken_at timestamptz,
    OUT contended boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_may pgqueue_queue_room;
    v_taken record;
BEGIN
    ids := '{}';
    taken_at := clock_timestamp();
    v_may := pgqueue_queue_allowance(p_queue, p_limit);
    contended := v_may.contended;
    IF contended THEN
        ids := NULL;
        RETURN;
    END IF;
    IF p_channel_id IS NOT NULL AND v_may.most IS NOT NULL THEN
        v_may.messages := least(
            v_may.messages, v_may.most - cardinality(array_positions(v_may.channel_ids, p_channel_id)));
    END IF;
    IF v_may.messages <= 0 THEN
        RETURN;
    END IF;
    IF p_channel_id IS NULL AND (v_may.by_share OR v_may.most IS NOT NULL) THEN
        v_taken := pgqueue_take_by_share(p_queue, v_may);
    ELSE
        v_taken := pgqueue_take(p_queue, v_may.messages, p_channel_id, p_among, v_may);
    END IF;
    ids := v_taken.ids;
    taken_at := v_taken.taken_at;
    contended := v_taken.contended;
    IF ids <> '{}' OR v_taken.wanted IS DISTINCT FROM v_may.wanted THEN
        PERFORM pgqueue_list_leases(p_queue, v_may, ids, taken_at, v_taken.cost, v_taken.wanted);
    END IF;
END;
$$;
