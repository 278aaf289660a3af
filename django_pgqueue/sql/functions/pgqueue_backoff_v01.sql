-- The pause before the next attempt: p_base, growing by p_factor with each failure, p_longest at the longest. With full jitter, unless the
-- factor is 1. Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
-- Caller: pgqueue_retry. p_attempt: the attempt that failed, from 1; p_base: a second, p_factor: 2, p_longest: an hour (a constant pause:
--   no bound), unless the message says otherwise. The factor is kept within bounds, and the pause within 365,000 days, also for rows that are
--   older than these rules. Locks: none.
CREATE FUNCTION pgqueue_backoff(
    p_attempt integer,
    p_base interval,
    p_factor double precision DEFAULT NULL,
    p_longest interval DEFAULT NULL
)
RETURNS interval
LANGUAGE sql
VOLATILE
AS $$
SELECT interval '1 second' * (
    CASE WHEN p_factor = 1 THEN 1.0 ELSE random() END
    * least(
        31536000000.0,
        extract(epoch FROM coalesce(p_longest, CASE WHEN p_factor = 1 THEN p_base ELSE interval '1 hour' END))::float8,
        extract(epoch FROM coalesce(p_base, interval '1 second'))::float8
            * least(greatest(coalesce(p_factor, 2.0), 1.0), 1000.0) ^ least(p_attempt - 1, 30)));
$$;
