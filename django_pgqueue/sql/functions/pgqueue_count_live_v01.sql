-- Counts the live messages of a channel, each state by the index that has it.
-- Caller: pgqueue_lock_size, pgqueue_recount, in one statement with the departures, so that both are of one snapshot. Locks: none.
CREATE FUNCTION pgqueue_count_live(p_channel_id bigint)
RETURNS bigint
LANGUAGE sql
STABLE
AS $$
SELECT (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = p_channel_id AND m.status = 1)
    + (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = p_channel_id AND m.status = 2)
    + (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = p_channel_id AND m.status = 3);
$$;
