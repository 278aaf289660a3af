-- Brings back a few of those of a queue that can be served again: messages whose lease has expired, at most 16 of them, and scheduled messages that
-- are due, at most 100. So nothing depends on a sweep or a tick.
-- Caller: what takes messages, when it found fewer than it may take, with its reading of the clock: the leases of the call itself, however
--   short, last longer. Of this queue alone: the caller's transaction may stay open, and what it holds nobody else can bring back.
-- Returns how many; 0: looking again finds nothing new. Mostly there is none, and this is one statement: two look-ups, each from its floor.
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
    SELECT f.expiry_from, f.due_from,
        (
            SELECT m.lease_expires_at FROM pgqueue_message AS m
            WHERE m.lease_expires_at >= f.expiry_from AND m.lease_expires_at <= p_now ORDER BY m.lease_expires_at LIMIT 1
        ) AS expired_at,
        (
            SELECT m.dequeue_at FROM pgqueue_message AS m
            WHERE m.status = 3 AND m.dequeue_at >= f.due_from AND m.dequeue_at <= p_now ORDER BY m.dequeue_at LIMIT 1
        ) AS due_at
    INTO v_look
    FROM (
        -- A floor from the future: the clock was set back.
        SELECT CASE WHEN o.watched_at <= p_now THEN o.expiry_from ELSE '-infinity' END AS expiry_from,
            CASE WHEN o.watched_at <= p_now THEN o.due_from ELSE '-infinity' END AS due_from
        FROM pgqueue_floor AS o ORDER BY o.id DESC LIMIT 1
    ) AS f;
    IF v_look.expired_at IS NOT NULL THEN
        v_back := pgqueue_reclaim(least(p_limit, 16), v_look.expiry_from, p_now, p_queue, p_worker);
        v_count := v_back.retried + v_back.poisoned + v_back.cancelled;
    END IF;
    -- A message whose lease has expired is due at once when it has no back-off.
    IF v_look.due_at IS NOT NULL OR v_count > 0 THEN
        v_count := v_count + pgqueue_promote(100, v_look.due_from, p_queue);
    END IF;
    RETURN v_count;
END;
$$;
