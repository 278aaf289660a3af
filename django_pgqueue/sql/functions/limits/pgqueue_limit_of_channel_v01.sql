-- Returns the id of the row that a channel has of a limit or breaker that is one for each channel; makes it when there
-- is none. The row of a breaker copies its settings; that of a shared limit has none, and follows p_limit.
-- p_limit: the limit, whose row the caller has locked, so that no insert waits for another one.
-- Locks: none.
CREATE FUNCTION pgqueue_limit_of_channel(p_limit pgqueue_limit, p_channel_id bigint)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_id bigint;
BEGIN
    INSERT INTO pgqueue_limit (name, breaker_handler, breaker_failures, breaker_within, breaker_pause, per, parent_id,
        channel_id)
    VALUES (
        -- A name of 200 characters leaves no room for the channel; pgqueue_limit_set refuses names like this one.
        CASE WHEN p_limit.breaker_failures IS NULL THEN 'limit ' || p_limit.id ELSE p_limit.name END
            || ', channel ' || p_channel_id,
        p_limit.breaker_handler, p_limit.breaker_failures, p_limit.breaker_within, p_limit.breaker_pause, p_limit.per,
        p_limit.id, p_channel_id)
    ON CONFLICT DO NOTHING
    RETURNING id INTO v_id;
    IF NOT FOUND THEN
        RETURN (SELECT c.id FROM pgqueue_limit AS c WHERE c.parent_id = p_limit.id AND c.channel_id = p_channel_id);
    ELSIF p_limit.breaker_failures IS NULL THEN
        -- Messages of the channel may be leased already: those of a handler that has just got the limit.
        PERFORM pgqueue_place_leases(ARRAY[v_id]);
    END IF;
    RETURN v_id;
END;
$$;
