-- Counts the ready messages of some channels, up to p_most; p_most + 1 means that there are more.
-- Locks: none.
CREATE FUNCTION pgqueue_count_ready(p_channel_ids bigint[], p_most integer)
RETURNS integer
LANGUAGE plpgsql
STABLE
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_channel_id bigint;
    v_some integer;
    v_count integer := 0;
BEGIN
    FOREACH v_channel_id IN ARRAY p_channel_ids LOOP
        SELECT count(*) INTO v_some
        FROM (
            SELECT FROM pgqueue_message AS m
            WHERE m.channel_id = v_channel_id AND m.status = 1 LIMIT p_most + 1 - v_count
        ) AS s;
        v_count := v_count + v_some;
        EXIT WHEN v_count > p_most;
    END LOOP;
    RETURN v_count;
END;
$$;
