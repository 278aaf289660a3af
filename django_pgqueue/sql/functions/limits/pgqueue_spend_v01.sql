-- Corrects what a leased message costs, when its handler knows it better than the enqueuer did. The rates of its
-- channel, its queue and its shared limits are charged for the difference, or get it back, with the next lease;
-- max_cost counts the new cost at once.
-- p_cost: the whole cost of this delivery. The message keeps it for its next one.
-- Returns the cost that was known before. A lost lease raises PGQ02.
-- Locks: the message (lock order, step 2).
-- Errors: PGQ02, PGQ07 p_cost is less than 1, or more than a rate allows (pgqueue_cost_problem).
CREATE FUNCTION pgqueue_spend(p_id bigint, p_token uuid, p_cost integer)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_message pgqueue_message;
    v_more integer;
    v_problem text;
BEGIN
    IF coalesce(p_cost, 0) < 1 THEN
        RAISE EXCEPTION 'the cost of a message is 1 or more, not %', coalesce(p_cost::text, 'NULL')
            USING ERRCODE = 'PGQ07';
    END IF;
    -- Locks the message first: of two calls at the same time, the second one must know what the first has charged.
    UPDATE pgqueue_message AS m SET cost = m.cost WHERE m.id = p_id AND m.lease_token = p_token
    RETURNING m.* INTO v_message;
    IF NOT FOUND THEN
        PERFORM pgqueue_lease_lost(ARRAY[p_id], '{}');
    END IF;
    v_more := p_cost - coalesce(v_message.cost, 1);
    v_problem := CASE WHEN v_more > 0
        THEN pgqueue_cost_problem(p_cost, v_message.channel_id, v_message.handler, v_message.limits) END;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'invalid message: %', v_problem USING ERRCODE = 'PGQ07';
    END IF;
    IF v_more <> 0 THEN
        UPDATE pgqueue_message AS m SET cost = p_cost WHERE m.id = p_id;
        INSERT INTO pgqueue_spent (limit_id, cost)
        SELECT l.id, v_more
        FROM (
            SELECT unnest(v_message.limits) AS id
            UNION
            SELECT h.limit_id FROM pgqueue_limit_handler AS h WHERE h.handler = v_message.handler
        ) AS n
        JOIN pgqueue_limit AS s ON s.id = n.id AND s.release_interval IS NOT NULL
        JOIN pgqueue_limit AS l ON l.id = pgqueue_own_limit(n.id, v_message.channel_id);
        PERFORM pgqueue_adjust_rates(ARRAY[v_message.channel_id], ARRAY[v_more::bigint]);
    END IF;
    RETURN coalesce(v_message.cost, 1);
END;
$$;
