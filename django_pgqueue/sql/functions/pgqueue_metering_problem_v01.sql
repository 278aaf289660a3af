-- Returns what is wrong with the shared limits or the cost of a new message, in words; NULL when nothing is.
-- Caller: pgqueue_enqueue, pgqueue_enqueue_many, pgqueue_withhold.
-- Locks: none.
CREATE FUNCTION pgqueue_metering_problem(p_limits text[], p_cost integer)
RETURNS text
LANGUAGE sql
STABLE
AS $$
SELECT CASE
    WHEN p_cost < 1 THEN 'cost is less than 1'
    WHEN p_limits IS NOT NULL THEN (
        SELECT format('there is no limit %s: make it with pgqueue_limit_set', min(coalesce(quote_ident(u.name), 'NULL')))
        FROM unnest(p_limits) AS u (name)
        WHERE NOT EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.name = u.name)
        HAVING count(*) > 0)
END;
$$;
