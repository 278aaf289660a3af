-- Deletes live messages of channels, at most p_limit, without a trace in the archive.
-- p_force, p_dry_run: as in pgqueue_channel_erase. p_until: only messages up to this id, so that an erase ends beside
-- producers that are as fast as it is.
-- Returns messages: how many were deleted; leased: how many stay because of their lease; more: call again.
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_erase_messages(
    p_channel_ids bigint[],
    p_force boolean,
    p_dry_run boolean,
    p_limit integer,
    p_until bigint,
    OUT messages bigint,
    OUT leased bigint,
    OUT more boolean
)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_ids bigint[];
    v_keys pgqueue_order_note[];
    v_flows bigint[];
    v_members bigint[];
BEGIN
    more := false;
    leased := (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = ANY (p_channel_ids) AND m.status = 2);
    IF p_dry_run THEN
        messages := (SELECT coalesce(sum(pgqueue_count_live(u.id)), 0) FROM unnest(p_channel_ids) AS u (id));
        IF p_force THEN
            leased := 0;
        ELSE
            messages := messages - leased;
        END IF;
        RETURN;
    END IF;
    -- Reads each status by its index, as pgqueue_channel_purge does.
    v_ids := pgqueue_lock_unleased(p_channel_ids, p_limit, p_until);
    IF p_force THEN
        v_ids := v_ids || ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = ANY (p_channel_ids) AND m.status = 2 AND m.id <= p_until
            LIMIT p_limit - cardinality(v_ids)
            FOR UPDATE SKIP LOCKED);
    END IF;
    -- Deletes them. Nothing is left that a holder's token could fit.
    WITH gone AS (
        DELETE FROM pgqueue_message AS m WHERE m.id = ANY (v_ids) RETURNING m.id, m.channel_id, m.order_key, m.flow
    ),
    -- Notes that they left channels with a max_size. The channels are paused, so a free place needs no arrival.
    departed AS (
        INSERT INTO pgqueue_departure (channel_id, messages)
        SELECT c.id, count(*) FROM gone AS g JOIN pgqueue_channel AS c ON c.id = g.channel_id
        WHERE c.max_size IS NOT NULL
        GROUP BY c.id
    )
    SELECT count(*),
        array_agg(ROW(g.channel_id, g.order_key)::pgqueue_order_note) FILTER (WHERE g.order_key IS NOT NULL),
        array_agg(g.flow) FILTER (WHERE g.flow IS NOT NULL), array_agg(g.id) FILTER (WHERE g.flow IS NOT NULL)
    INTO messages, v_keys, v_flows, v_members
    FROM gone AS g;
    IF v_keys IS NOT NULL THEN
        PERFORM pgqueue_release_keys(v_keys, true);
    END IF;
    IF v_flows IS NOT NULL THEN
        PERFORM pgqueue_flow_settled(v_flows, v_members, 'erased');
    END IF;
    more := messages = p_limit;
    IF p_force THEN
        leased := (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = ANY (p_channel_ids) AND m.status = 2);
    END IF;
END;
$$;
