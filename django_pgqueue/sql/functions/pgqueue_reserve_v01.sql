-- Takes room for new messages on a channel that has a max_size, and returns how much is left.
-- Caller: the insert trigger (p_messages > 0, already inserted) and what enqueues, before it inserts (p_messages = 0: only look).
-- p_wait: how long to wait behind another open transaction that enqueues to the channel; NULL: the setting pgqueue.enqueue_wait, or 2 s.
-- Returns the room that is left; or the refusal: PGQ04 full, PGQ06 busy. A refusal changes nothing.
-- Locks: the channel's row in pgqueue_channel_size until the caller commits (lock order, step 1: in channel order; a caller that
--   comes out of order waits 200 ms at most, so that no cycle can form). Settling never takes it: it appends to pgqueue_departure.
CREATE FUNCTION pgqueue_reserve(
    p_channel_id bigint,
    p_max_size integer,
    p_messages bigint,
    p_wait interval DEFAULT NULL,
    OUT room bigint,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_last bigint := coalesce(nullif(current_setting('pgqueue.reserved_channel', true), ''), '0')::bigint;
    v_timeout text;
    v_live bigint := pgqueue_lock_size(p_channel_id, p_messages, false);
    v_left bigint;
BEGIN
    -- Only a caller that has to wait pays for a subtransaction: it brings back the state before the wait.
    IF v_live IS NULL THEN
        v_timeout := current_setting('lock_timeout');
        BEGIN
            PERFORM set_config('lock_timeout', pgqueue_enqueue_wait(p_wait, v_timeout, p_channel_id < v_last), true);
            v_live := pgqueue_lock_size(p_channel_id, p_messages, true);
            PERFORM set_config('lock_timeout', v_timeout, true);
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            refusal := pgqueue_channel_refusal('PGQ06', p_channel_id);
            RETURN;
        END;
    END IF;
    IF p_channel_id > v_last THEN
        PERFORM set_config('pgqueue.reserved_channel', p_channel_id::text, true);
    END IF;
    WITH gone AS (
        DELETE FROM pgqueue_departure AS d WHERE d.channel_id = p_channel_id RETURNING d.messages
    )
    SELECT coalesce(sum(g.messages), 0) INTO v_left FROM gone AS g;
    IF v_live - v_left + p_messages > p_max_size AND p_messages > 0 THEN
        refusal := pgqueue_channel_refusal('PGQ04', p_channel_id, v_live - v_left, p_messages);
        p_messages := 0;
    END IF;
    room := p_max_size - (v_live - v_left + p_messages);
    IF v_left <> 0 OR p_messages <> 0 THEN
        UPDATE pgqueue_channel_size AS s SET live = v_live - v_left + p_messages WHERE s.channel_id = p_channel_id;
    END IF;
END;
$$;
