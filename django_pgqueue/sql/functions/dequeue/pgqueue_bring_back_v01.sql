-- Makes a few messages of a queue ready again: at most 16 with an expired lease, 100 scheduled messages that are due,
-- p_limit that wait for shared limits, and the next message of 100 order keys whose settlement could not release it
-- (pgqueue_release_noted). So the queue depends neither on a sweep nor on a tick.
-- The callers found fewer messages than they may take, or an empty line. p_now is their reading of the clock: the
-- leases of the call itself, however short, last longer. Other queues are left out: the caller's transaction may stay
-- open, and no other transaction can bring back the messages that it holds.
-- Returns the number of messages; 0: looking again finds nothing new.
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_bring_back(p_queue text, p_limit integer, p_now timestamptz, p_worker text)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_look record;
    v_back record;
    v_count integer := 0;
BEGIN
    SELECT n.expiry_from, n.due_from, n.expired, n.scheduled, n.waiting, n.noted INTO v_look
    FROM pgqueue_line(p_queue, p_now) AS n;
    IF v_look.expired THEN
        v_back := pgqueue_reclaim(least(p_limit, 16), v_look.expiry_from, p_now, p_queue, p_worker);
        v_count := v_back.retried + v_back.poisoned + v_back.cancelled;
    END IF;
    -- A message whose lease has expired is due at once when it has no back-off.
    IF v_look.scheduled OR v_count > 0 THEN
        v_count := v_count + pgqueue_promote(100, v_look.due_from, p_queue);
    END IF;
    IF v_look.waiting OR v_count > 0 THEN
        v_count := v_count + pgqueue_promote_waiting(p_queue, p_limit, p_now);
    END IF;
    IF v_look.noted THEN
        v_count := v_count + pgqueue_release_noted(p_queue);
    END IF;
    RETURN v_count;
END;
$$;
