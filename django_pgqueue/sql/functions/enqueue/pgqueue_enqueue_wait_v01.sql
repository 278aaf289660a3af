-- Computes the lock_timeout of an enqueue that has to wait for a channel or a dedupe key: p_wait, or the setting
-- pgqueue.enqueue_wait, or 2 seconds.
-- p_timeout: the caller's own lock_timeout, which may be shorter; p_out_of_order: the caller holds the count of a later
-- channel, and waits 200 ms at most.
-- Returns milliseconds, 1 or more (0 would be no limit).
-- Locks: none.
CREATE FUNCTION pgqueue_enqueue_wait(p_wait interval, p_timeout text, p_out_of_order boolean)
RETURNS text
LANGUAGE sql
STABLE
AS $$
SELECT greatest(1, least(
    extract(epoch FROM coalesce(p_wait, nullif(current_setting('pgqueue.enqueue_wait', true), '')::interval,
        '2 seconds')) * 1000,
    extract(epoch FROM nullif(p_timeout::interval, '0')) * 1000,
    CASE WHEN p_out_of_order THEN 200 ELSE 2147483647 END))::integer::text;
$$;
