-- Counts the live messages of channels with max_size again and corrects the count where it is wrong, as it may be after
-- the limit was set while messages came and went.
-- pgqueue_sweep passes channels that changed lately, pgqueue_prune all.
-- Returns the number of corrections.
-- Locks: rows of pgqueue_channel_size, SKIP LOCKED: a channel that is being filled is left for the next time.
CREATE FUNCTION pgqueue_recount(p_channel_ids bigint[])
RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_size record;
    v_live bigint;
    v_mended integer := 0;
BEGIN
    FOR v_size IN
        SELECT s.channel_id, s.live FROM pgqueue_channel_size AS s
        WHERE s.channel_id = ANY (p_channel_ids)
        ORDER BY s.channel_id
        FOR UPDATE SKIP LOCKED
    LOOP
        SELECT pgqueue_count_live(v_size.channel_id)
            + (SELECT coalesce(sum(d.messages), 0) FROM pgqueue_departure AS d WHERE d.channel_id = v_size.channel_id)
        INTO v_live;
        IF v_live <> v_size.live THEN
            UPDATE pgqueue_channel_size AS s SET live = v_live WHERE s.channel_id = v_size.channel_id;
            v_mended := v_mended + 1;
            RAISE WARNING 'pgqueue: channel % holds % live messages, not %: repaired', v_size.channel_id, v_live,
                v_size.live;
        END IF;
    END LOOP;
    RETURN v_mended;
END;
$$;
