-- Takes room for new messages on a channel that has a max_size, and returns how much is left.
-- The insert trigger passes p_messages > 0, already inserted; the verbs pass p_messages = 0 before they insert, and
-- only look. p_wait: how long one statement waits behind open transactions that enqueue to its channels, all of them
-- together; NULL: the setting pgqueue.enqueue_wait, or 2 s.
-- Returns the room that is left; or the refusal: PGQ04 full, PGQ06 busy. A refusal changes nothing.
-- Locks: the channel's row in pgqueue_channel_size until the caller commits (lock order, step 1: in channel order; a
--   caller that comes out of order waits 200 ms at most, so that no cycle can form). Settling never takes it: it
--   appends to pgqueue_departure.
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
    v_statement text;
    v_allowed numeric;
    v_remaining numeric;
    v_part numeric;
    v_began_at timestamptz;
    v_live bigint := pgqueue_lock_size(p_channel_id, p_messages, false);
    v_left bigint;
BEGIN
    -- Only a caller that has to wait pays for subtransactions: each brings back the state before its wait.
    IF v_live IS NULL THEN
        v_timeout := current_setting('lock_timeout');
        v_statement := extract(epoch FROM statement_timestamp());
        -- The timeout is in milliseconds, less those that this statement has waited for channels before.
        v_allowed := pgqueue_enqueue_wait(p_wait, v_timeout, p_channel_id < v_last)::numeric;
        v_remaining := v_allowed - CASE
            WHEN split_part(current_setting('pgqueue.waited', true), ' ', 1) = v_statement
                THEN split_part(current_setting('pgqueue.waited', true), ' ', 2)::numeric
            ELSE 0
        END;
        -- A row is waited for by two locks, the place behind others that wait and then the row, and lock_timeout bounds
        -- each of the two. So a try takes half of the rest. It is counted without the clock, too, which may be set
        -- back.
        LOOP
            v_began_at := clock_timestamp();
            v_part := greatest(1, ceil(v_remaining / 2));
            BEGIN
                PERFORM set_config('lock_timeout', v_part::text, true);
                v_live := pgqueue_lock_size(p_channel_id, p_messages, true);
                PERFORM set_config('lock_timeout', v_timeout, true);
                v_part := 0;
            EXCEPTION
                WHEN lock_not_available THEN NULL;
                WHEN deadlock_detected THEN v_part := v_remaining;
            END;
            v_remaining := v_remaining - greatest(v_part, extract(epoch FROM clock_timestamp() - v_began_at) * 1000);
            EXIT WHEN v_live IS NOT NULL OR v_remaining < 1;
        END LOOP;
        PERFORM set_config('pgqueue.waited', v_statement || ' ' || (v_allowed - v_remaining)::text, true);
        IF v_live IS NULL THEN
            refusal := pgqueue_channel_refusal('PGQ06', p_channel_id);
            RETURN;
        END IF;
    END IF;
    IF p_channel_id > v_last THEN
        PERFORM set_config('pgqueue.reserved_channel', p_channel_id::text, true);
    END IF;
    -- Deletes the departures of the channel, to subtract them from its count.
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
