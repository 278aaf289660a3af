-- Computes how far a number of tokens moves the time of a token bucket whose interval is p_step.
-- A cost may be two thousand million: it moves the time by 1,000 years at most, so that no time is out of range.
-- The function is IMMUTABLE, so that it becomes a part of the expression.
-- Locks: none.
CREATE FUNCTION pgqueue_token_time(p_step interval, p_tokens numeric)
RETURNS interval
LANGUAGE sql
IMMUTABLE
AS $$
SELECT CASE WHEN p_step IS NOT NULL AND p_tokens IS NOT NULL THEN
    make_interval(secs => greatest(-31536000000, least(31536000000, extract(epoch FROM p_step) * p_tokens))::float8)
END;
$$;
