-- Fills the turn of a lane whose messages have order keys: sets those aside whose turn it is not yet, and takes others
-- in their place.
-- p_rank, p_at, p_key: no ready message of the channel sorts before this key; p_quota: how many the lane may have;
-- p_ids: the messages that were taken, at most as many; p_except: messages that the call has taken before. It looks at
-- 1,000 messages beyond the quota at most, because the caller holds locks meanwhile.
-- Returns the ids in the order of service.
-- Locks: as pgqueue_take_keyed; messages, SKIP LOCKED. The callers pin the plans.
CREATE FUNCTION pgqueue_fill_turn(
    p_channel_id bigint,
    p_rank smallint,
    p_at timestamptz,
    p_key bigint,
    p_quota integer,
    p_ids bigint[],
    p_except bigint[]
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_new bigint[] := p_ids;
    v_seen bigint[] := p_except;
    v_ids bigint[] := '{}';
BEGIN
    WHILE v_new <> '{}' LOOP
        v_ids := v_ids || pgqueue_take_keyed(v_new);
        v_seen := v_seen || v_new;
        EXIT WHEN cardinality(v_ids) >= p_quota OR cardinality(v_seen) > cardinality(p_except) + p_quota + 1000;
        v_new := ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = p_channel_id AND m.status = 1 AND m.id <> ALL (v_seen)
                AND (-m.priority, m.dequeue_at, m.id) >= (p_rank, p_at, p_key)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT p_quota - cardinality(v_ids)
            FOR UPDATE SKIP LOCKED);
    END LOOP;
    RETURN v_ids;
END;
$$;
