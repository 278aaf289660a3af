-- Returns how many messages one channel of a queue may have leased under max_share; NULL without that limit.
-- The slots of a queue are the concurrency of its live workers together, and at most its max_concurrency. A worker of
-- several queues counts for each of them. Without a live worker and without a max_concurrency, the slots are unknown
-- and there is no limit. One message is always allowed.
-- Locks: none.
CREATE FUNCTION pgqueue_share_limit(p_queue pgqueue_queue)
RETURNS integer
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_slots bigint;
BEGIN
    IF p_queue.max_share IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT least(p_queue.max_concurrency, sum(k.concurrency)) INTO v_slots
    FROM pgqueue_worker AS k
    -- The heartbeat comes first: workers that were killed keep their rows for a while.
    WHERE k.heartbeat_at > clock_timestamp() - interval '15 seconds' AND k.queues ? p_queue.name
        AND k.state <> 'stopping' AND k.paused_at IS NULL;
    RETURN CASE WHEN v_slots IS NOT NULL THEN greatest(1, floor(p_queue.max_share * v_slots)) END;
END;
$$;
