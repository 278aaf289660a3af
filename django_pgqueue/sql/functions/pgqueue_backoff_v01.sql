-- The pause before the next attempt: exponential with full jitter, an hour at the longest.
-- Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
-- Caller: pgqueue_retry. p_attempt: the attempt that failed, from 1; p_base: a second unless the message says otherwise. Locks: none.
CREATE FUNCTION pgqueue_backoff(p_attempt integer, p_base interval)
RETURNS interval
LANGUAGE sql
VOLATILE
AS $$
SELECT interval '1 second' * (
    random() * least(3600, extract(epoch FROM coalesce(p_base, interval '1 second'))::float8 * 2.0::float8 ^ least(p_attempt - 1, 30)));
$$;
