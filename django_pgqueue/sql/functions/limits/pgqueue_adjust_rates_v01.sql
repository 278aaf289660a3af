-- Corrects what the rates of channels, and of their queues, were charged for messages: the next dequeue pays the
-- difference, or gets it back.
-- p_channel_ids, p_costs: one entry for each message; a negative cost gives back. p_held: the caller holds the lanes of
-- the channels, and writes them. A dequeue that takes from a lane before it has got the tokens back would get one too
-- many: its own would count for the time in which the bucket was full. Shared limits: pgqueue_spent.
-- Locks: none (append only), so that a correction never waits for a dequeue; with p_held, lanes, SKIP LOCKED.
CREATE FUNCTION pgqueue_adjust_rates(p_channel_ids bigint[], p_costs bigint[], p_held boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    IF p_held THEN
        PERFORM pgqueue_charge_lane((pgqueue_lock_lane(u.id)).place, u.cost)
        FROM (SELECT n.id, sum(n.cost)::bigint AS cost FROM unnest(p_channel_ids, p_costs) AS n (id, cost)
            GROUP BY n.id) AS u
        JOIN pgqueue_channel AS c ON c.id = u.id
        WHERE c.release_interval IS NOT NULL AND c.released_at IS NULL AND u.cost <> 0;
    END IF;
    -- Appends an arrival for each channel with a rate: the dequeue that folds it holds the lane.
    WITH charged AS (
        INSERT INTO pgqueue_arrival (queue, channel_id, spent)
        SELECT c.queue, c.id, u.cost
        FROM (SELECT n.id, sum(n.cost)::bigint AS cost FROM unnest(p_channel_ids, p_costs) AS n (id, cost)
            GROUP BY n.id) AS u
        JOIN pgqueue_channel AS c ON c.id = u.id
        WHERE NOT p_held AND c.release_interval IS NOT NULL AND c.released_at IS NULL AND u.cost <> 0
    )
    INSERT INTO pgqueue_spent (queue, cost)
    SELECT c.queue, sum(u.cost)
    FROM unnest(p_channel_ids, p_costs) AS u (id, cost)
    JOIN pgqueue_channel AS c ON c.id = u.id
    JOIN pgqueue_queue AS q ON q.name = c.queue
    WHERE q.release_interval IS NOT NULL
    GROUP BY c.queue
    HAVING sum(u.cost) <> 0;
END;
$$;
