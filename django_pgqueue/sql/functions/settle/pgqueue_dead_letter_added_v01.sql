-- Warns in the server's log about new dead letters, at most once in 10 seconds, and publishes the event dead_lettered
-- for queues that have events.
-- Statement trigger, AFTER INSERT (transition table: added). It reports any INSERT: verbs, plain SQL, COPY.
-- Locks: none.
CREATE FUNCTION pgqueue_dead_letter_added()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_added record;
BEGIN
    SELECT count(*) AS count, min(a.id) AS first, array_agg(a.id) AS ids INTO v_added FROM added AS a;
    IF v_added.count = 0 THEN
        RETURN NULL;
    END IF;
    IF pgqueue_may_warn('dead_letter') THEN
        RAISE WARNING 'pgqueue: % message(s) dead-lettered, message % with reason "%"', v_added.count, v_added.first,
            (SELECT left(a.reason, 200) FROM added AS a WHERE a.id = v_added.first)
            USING HINT = 'See pgqueue_dead_letter. More warnings of this kind are held back for 10 seconds.';
    END IF;
    IF EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events) THEN
        PERFORM pgqueue_publish('dead_lettered', v_added.ids);
    END IF;
    RETURN NULL;
END;
$$;
