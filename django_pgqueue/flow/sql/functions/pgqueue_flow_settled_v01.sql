-- Tells the batches that members of theirs are settled for good, and ends those that have no member left. Then tells
-- the messages that wait for these.
-- p_flows and p_ids pair up: the flow of each message, and its id. p_outcome: completed and popped count as done; any
-- other one is kept with the member in pgqueue_batch_lost.
-- Locks: as pgqueue_batch_look, from the newest batch on, because an inner batch is newer than its outer one; then as
-- pgqueue_after_settled.
CREATE FUNCTION pgqueue_flow_settled(p_flows bigint[], p_ids bigint[], p_outcome text)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_batch bigint := p_flows[1];
BEGIN
    -- All of one batch, the most frequent case.
    IF v_batch > 0 AND v_batch = ALL (p_flows) THEN
        PERFORM pgqueue_batch_settle(v_batch, p_ids, p_outcome);
        RETURN;
    END IF;
    -- Each batch is done with before the next one, so that no two calls can wait for each other.
    FOR v_batch IN
        SELECT DISTINCT abs(u.flow) AS batch FROM unnest(p_flows) AS u (flow) WHERE u.flow <> 0 ORDER BY batch DESC
    LOOP
        PERFORM pgqueue_batch_settle(v_batch, array_agg(u.id), p_outcome)
        FROM unnest(p_flows, p_ids) AS u (flow, id)
        WHERE abs(u.flow) = v_batch;
    END LOOP;
    PERFORM pgqueue_after_settled(array_agg(u.id), p_outcome)
    FROM unnest(p_flows, p_ids) AS u (flow, id)
    WHERE u.flow <= 0;
END;
$$;
