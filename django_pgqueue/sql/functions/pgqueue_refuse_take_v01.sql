-- Says why a dequeue or pop cannot work, and what to do.
-- Caller: pgqueue_dequeue, pgqueue_pop. Locks: none. Errors: always PGQ07.
CREATE FUNCTION pgqueue_refuse_take(p_queue text, p_limit integer, p_lease interval)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    -- The line is read with a new snapshot after each lock; under an older snapshot messages would be missed.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'dequeue needs READ COMMITTED, this transaction is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'PGQ07', HINT = 'Dequeue in a transaction of its own, with the default isolation level.';
    END IF;
    RAISE EXCEPTION 'dequeue needs a queue (%), a limit of 1 to 10000 (%) and a lease of more than 0 and at most 365000 days (%)',
        coalesce(p_queue, 'NULL'), coalesce(p_limit::text, 'NULL'), coalesce(p_lease::text, 'NULL')
        USING ERRCODE = 'PGQ07';
END;
$$;
