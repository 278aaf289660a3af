-- Computes the pause before the next attempt: p_base, multiplied by p_factor with each failure, at most p_longest. It
-- has full jitter, unless the factor is 1. Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
-- 2015.
-- p_attempt: the attempt that failed, from 1. NULL takes the default: p_base 1 second, p_factor 2, p_longest 1 hour (a
-- constant pause has no bound). The factor is kept between 1 and 1000, and the pause within 365,000 days
-- (31,536,000,000 s), also for rows that are older than these rules.
-- Locks: none.
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
