-- Returns the stored time of a token bucket, bounded by what it can be at p_now: the interval may have been shortened,
-- or the clock set back.
-- p_step, p_burst: the interval and the burst of the rate; p_debt: how many tokens beyond the burst messages have cost.
-- The function is STABLE, so that it becomes a part of the expression.
-- Locks: none.
CREATE FUNCTION pgqueue_bucket_time(
    p_next_at timestamptz, p_debt bigint, p_step interval, p_burst integer, p_now timestamptz
)
RETURNS timestamptz
LANGUAGE sql
STABLE
AS $$
SELECT least(p_next_at, p_now + pgqueue_token_time(p_step, p_burst + coalesce(p_debt, 0)));
$$;
