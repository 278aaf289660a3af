-- Takes room for new messages on a channel that has a max_size, and tells how much is left.
-- Caller: the insert trigger (p_messages > 0) and pgqueue_enqueue for channels that drop (p_messages = 0: only look).
-- Locks: the channel's row in pgqueue_channel_size until the caller commits (lock order, step 1: in channel order; a caller that
--   comes out of order waits 200 ms at most, so that no cycle can form). Settling never takes it: it appends to pgqueue_departure.
-- Errors: PGQ04 channel full, PGQ06 channel busy.
CREATE FUNCTION pgqueue_reserve(p_channel_id bigint, p_max_size integer, p_messages bigint)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_last bigint := coalesce(nullif(current_setting('pgqueue.reserved_channel', true), ''), '0')::bigint;
    v_timeout text := current_setting('lock_timeout');
    v_live bigint;
    v_left bigint;
BEGIN
    IF p_channel_id >= v_last THEN
        v_live := pgqueue_lock_size(p_channel_id, p_messages);
        PERFORM set_config('pgqueue.reserved_channel', p_channel_id::text, true);
    ELSE
        BEGIN
            PERFORM set_config('lock_timeout', '200ms', true);
            v_live := pgqueue_lock_size(p_channel_id, p_messages);
            PERFORM set_config('lock_timeout', v_timeout, true);
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            RAISE EXCEPTION 'channel % is being filled by another transaction', p_channel_id
                USING ERRCODE = 'PGQ06',
                    HINT = 'Enqueue to several channels that have a max_size with one pgqueue_enqueue_many() call, or retry.';
        END;
    END IF;
    WITH gone AS (
        DELETE FROM pgqueue_departure AS d WHERE d.channel_id = p_channel_id RETURNING d.messages
    )
    SELECT coalesce(sum(g.messages), 0) INTO v_left FROM gone AS g;
    IF v_live - v_left + p_messages > p_max_size AND p_messages > 0 THEN
        RAISE EXCEPTION 'channel % is full: % of % messages live, % more asked for', p_channel_id, v_live - v_left, p_max_size, p_messages
            USING ERRCODE = 'PGQ04', HINT = 'Wait until messages are settled, raise max_size, or set full_policy to drop.';
    END IF;
    IF v_left <> 0 OR p_messages <> 0 THEN
        UPDATE pgqueue_channel_size AS s SET live = v_live - v_left + p_messages WHERE s.channel_id = p_channel_id;
    END IF;
    RETURN p_max_size - (v_live - v_left + p_messages);
END;
$$;
