-- Lists shared limits that messages wait for, in the order of their ids from p_from on, p_most at most.
-- A million messages may wait for one limit: each limit is one step of the index.
-- Locks: none.
CREATE FUNCTION pgqueue_waiting_limits(p_from bigint, p_most integer)
RETURNS SETOF bigint
LANGUAGE sql
STABLE
AS $$
-- Reads one limit in each step.
WITH RECURSIVE step (id) AS (
    (
        SELECT m.waits_for FROM pgqueue_message AS m
        WHERE m.waits_for >= p_from ORDER BY m.waits_for LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT m.waits_for FROM pgqueue_message AS m
        WHERE m.waits_for > s.id ORDER BY m.waits_for LIMIT 1)
    FROM step AS s
    WHERE s.id IS NOT NULL
)
SELECT s.id FROM step AS s WHERE s.id IS NOT NULL LIMIT p_most;
$$;
