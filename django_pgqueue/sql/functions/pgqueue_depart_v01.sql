-- Tells that messages left limited channels: a place came free (max_concurrency), a live message is gone (max_size).
-- Caller: what settles or removes messages, in the same transaction; one entry of p_channel_ids a message.
-- Locks: none (append only), so that settling never waits for an enqueuer and never touches a lane.
CREATE FUNCTION pgqueue_depart(p_channel_ids bigint[], p_gone boolean DEFAULT true)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    WITH freed AS (
        INSERT INTO pgqueue_arrival (queue, channel_id, kind)
        SELECT c.queue, c.id, 0 FROM pgqueue_channel AS c WHERE c.id = ANY (p_channel_ids) AND c.max_concurrency IS NOT NULL
    )
    INSERT INTO pgqueue_departure (channel_id, messages)
    SELECT d.channel_id, d.messages
    FROM (SELECT u.channel_id, count(*) AS messages FROM unnest(p_channel_ids) AS u (channel_id) GROUP BY u.channel_id) AS d
    -- OFFSET: each channel is looked up by its key, not all of them compared with each.
    CROSS JOIN LATERAL (SELECT FROM pgqueue_channel AS c WHERE c.id = d.channel_id AND c.max_size IS NOT NULL OFFSET 0) AS c
    WHERE p_gone;
    PERFORM pgqueue_wake(q.queue)
    FROM (SELECT DISTINCT c.queue FROM pgqueue_channel AS c WHERE c.id = ANY (p_channel_ids) AND c.max_concurrency IS NOT NULL) AS q;
END;
$$;
