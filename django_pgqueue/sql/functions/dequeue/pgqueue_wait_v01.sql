-- Announces that a worker will sleep until a message arrives on one of these queues, at most for p_for; an empty
-- interval announces that it is awake.
-- A worker calls it in a transaction of its own, before it looks at the queues for the last time, and when it has woken
-- up.
-- Locks: the worker's own rows.
CREATE FUNCTION pgqueue_wait(p_worker text, p_queues text[], p_for interval)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    DELETE FROM pgqueue_waiter AS w
    WHERE w.queue = ANY (p_queues) AND w.worker = p_worker AND w.wait_until > clock_timestamp() - interval '1 minute';
    IF p_for > '0' THEN
        INSERT INTO pgqueue_waiter (queue, wait_until, worker)
        SELECT q, clock_timestamp() + p_for, p_worker FROM unnest(p_queues) AS q;
    END IF;
END;
$$;
