-- Decides whether a channel that has a max_size takes p_messages more messages, before they are inserted.
-- p_wait: as in pgqueue_reserve.
-- Returns all NULL when the channel takes them; dropped_ids, locked, when these have to leave first (drop_oldest,
--   replace: for one message); else the outcome dropped (the channel is full, and its policy is to drop), or full or
--   busy with the refusal.
-- Locks: as pgqueue_reserve (lock order, step 1); then messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_admit(
    p_channel_id bigint,
    p_max_size integer,
    p_full_policy text,
    p_messages bigint,
    p_wait interval,
    OUT outcome text,
    OUT dropped_ids bigint[],
    OUT refusal jsonb
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_found record := pgqueue_reserve(p_channel_id, p_max_size, 0, p_wait);
BEGIN
    refusal := v_found.refusal;
    IF refusal IS NULL AND v_found.room < p_messages THEN
        IF p_full_policy = 'drop' THEN
            outcome := 'dropped';
            RETURN;
        ELSIF p_full_policy IN ('drop_oldest', 'replace') THEN
            dropped_ids := pgqueue_choose_dropped(p_channel_id, p_max_size, p_full_policy, v_found.room);
        END IF;
        IF dropped_ids IS NULL THEN
            refusal := pgqueue_channel_refusal('PGQ04', p_channel_id, p_max_size - v_found.room, p_messages);
        END IF;
    END IF;
    outcome := refusal ->> 'outcome';
END;
$$;
