-- Records that messages left limited channels or queues, or had shared limits: a place is free (max_concurrency,
-- max_share), a live message is gone (max_size), or the one that waits for tokens (a rate).
-- The caller settles or removes the messages in the same transaction. p_channel_ids has one entry for each message.
-- Locks: none (append only), so that settling never waits for an enqueuer and never touches a lane.
CREATE FUNCTION pgqueue_record_departures(p_channel_ids bigint[], p_gone boolean DEFAULT true)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    -- Appends an arrival for each channel with max_concurrency or a rate, which has to be looked at again.
    WITH freed AS (
        -- A channel that stands in line needs an arrival, too: a dequeue that counts its leases at this instant may
        -- park it.
        INSERT INTO pgqueue_arrival (queue, channel_id, lazy)
        -- The LIMIT looks up each lane by its channel; an EXISTS is hashed, which reads all lanes.
        SELECT c.queue, c.id,
            coalesce(
                (SELECT l.parked_until IS NULL FROM pgqueue_lane AS l WHERE l.channel_id = c.id
                    ORDER BY l.seq DESC LIMIT 1), false)
        FROM pgqueue_channel AS c
        WHERE c.id = ANY (p_channel_ids) AND (c.max_concurrency IS NOT NULL OR c.release_interval IS NOT NULL)
    )
    INSERT INTO pgqueue_departure (channel_id, messages)
    SELECT d.channel_id, d.messages
    FROM (SELECT u.channel_id, count(*) AS messages FROM unnest(p_channel_ids) AS u (channel_id)
        GROUP BY u.channel_id) AS d
    -- The OFFSET looks up each channel by its key, instead of comparing all of them with each.
    CROSS JOIN LATERAL (SELECT FROM pgqueue_channel AS c
        WHERE c.id = d.channel_id AND c.max_size IS NOT NULL OFFSET 0) AS c
    WHERE p_gone;
    PERFORM pgqueue_wake_freed(p_channel_ids);
END;
$$;
