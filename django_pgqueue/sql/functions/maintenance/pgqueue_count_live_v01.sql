-- Counts the live messages of a channel, each state by its own index.
-- A caller that keeps a size counts the departures in the same statement, so that both belong to one snapshot.
-- Locks: none.
CREATE FUNCTION pgqueue_count_live(p_channel_id bigint)
RETURNS bigint
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = p_channel_id AND m.status = 1)
        + (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = p_channel_id AND m.status = 2)
        + (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = p_channel_id AND m.status = 3);
END;
$$;
