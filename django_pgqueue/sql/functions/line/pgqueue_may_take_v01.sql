-- Returns whether a dequeue may run with these parameters, in this transaction. If not, pgqueue_refuse_take says why.
-- The function is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_may_take(p_queue text, p_limit integer, p_lease interval)
RETURNS boolean
LANGUAGE sql
STABLE
AS $$
SELECT p_queue IS NOT NULL AND coalesce(p_limit, 0) BETWEEN 1 AND 10000 AND coalesce(p_lease, '0') > '0'
    AND p_lease <= '365000 days' AND current_setting('transaction_isolation') = 'read committed';
$$;
