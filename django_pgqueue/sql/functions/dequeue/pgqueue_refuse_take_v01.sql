-- Raises the reason why a dequeue or pop cannot work, and what to do.
-- p_verb: the function that was called, without pgqueue_.
-- Locks: none.
-- Errors: always PGQ07.
CREATE FUNCTION pgqueue_refuse_take(p_queue text, p_limit integer, p_lease interval, p_verb text DEFAULT 'dequeue')
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    -- The line is read with a new snapshot after each lock; under an older snapshot messages would be missed.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION '% needs READ COMMITTED, this transaction is %', p_verb,
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'PGQ07', HINT = 'Dequeue in a transaction of its own, with READ COMMITTED. Where that is '
                'not the default: ALTER ROLE … SET default_transaction_isolation = ''read committed''.';
    ELSIF p_queue IS NULL THEN
        RAISE EXCEPTION '% needs a queue, not NULL', p_verb
            USING ERRCODE = 'PGQ07', HINT = 'Give the name of the queue.';
    ELSIF coalesce(p_lease, '0') <= '0' OR p_lease > '365000 days' THEN
        RAISE EXCEPTION '% needs a lease of more than 0 and at most 365000 days, not %', p_verb,
            coalesce(p_lease::text, 'NULL')
            USING ERRCODE = 'PGQ07', HINT = 'Give an interval such as ''15 seconds''.';
    END IF;
    RAISE EXCEPTION '% needs a limit of 1 to 10000, not %', p_verb, coalesce(p_limit::text, 'NULL')
        USING ERRCODE = 'PGQ07', HINT = 'Give p_limit a number of this range.';
END;
$$;
