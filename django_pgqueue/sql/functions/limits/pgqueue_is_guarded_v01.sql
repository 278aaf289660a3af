-- Returns whether a dequeue must look at the settings of the whole queue first: it is paused, it has a limit, or it
-- serves by share.
-- Queues without any of these pay nothing for them. The function is IMMUTABLE, so that it becomes a part of the
-- statement.
-- Locks: none.
CREATE FUNCTION pgqueue_is_guarded(p_queue pgqueue_queue)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
AS $$
SELECT p_queue.paused_at IS NOT NULL OR p_queue.max_concurrency IS NOT NULL OR p_queue.release_interval IS NOT NULL
    OR p_queue.fairness <> 'turns' OR p_queue.max_share IS NOT NULL;
$$;
