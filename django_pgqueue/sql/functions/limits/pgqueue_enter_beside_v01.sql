-- Lets a dequeue of one message pass beside the gate of a queue, while its max_concurrency is far from full: up to
-- eight at the same time.
-- Each of them holds the lock of one of eight sides, and takes one message. The count is exact: of those that pass
-- beside each other, the one that looks last sees all leases but those of the seven others, which are not committed. So
-- if eight places are free when it looks, no place is taken twice. A dequeue that holds the gate holds all sides
-- (pgqueue_lock_gate), so it is alone.
-- A transaction that has written before may have taken messages already, of which the others would count one only: it
-- has to hold the gate. The exception gives a side back: two that keep theirs would hinder each other at the gate.
-- Returns the room of the queue, with its side; messages is 0 when the gate must be asked.
-- Locks: pg_try_advisory_xact_lock of a side. It never waits.
CREATE FUNCTION pgqueue_enter_beside(p_queue text)
RETURNS pgqueue_queue_room
LANGUAGE plpgsql
AS $$
DECLARE
    v_room pgqueue_queue_room;
    v_gate record;
    v_held bigint[];
    v_own bigint[];
    v_count integer;
BEGIN
    v_room.messages := 0;
    IF pg_current_xact_id_if_assigned() IS NOT NULL OR NOT EXISTS (
        SELECT FROM pgqueue_queue AS q
        WHERE q.name = p_queue AND q.max_concurrency > 8 AND q.release_interval IS NULL AND q.fairness = 'turns'
            AND q.max_share IS NULL)
    THEN
        RETURN v_room;
    END IF;
    FOR v_try IN 0..7 LOOP
        v_room.side := (pg_backend_pid() + v_try) % 8;
        EXIT WHEN pg_try_advisory_xact_lock(hashtextextended(p_queue, 7210 + v_room.side));
        v_room.side := NULL;
    END LOOP;
    -- These looks are younger than the lock.
    SELECT g.held, q.max_concurrency INTO v_gate
    FROM pgqueue_queue AS q
    CROSS JOIN LATERAL (
        SELECT o.held, o.seen_at FROM pgqueue_gate AS o WHERE o.queue = q.name ORDER BY o.seq DESC LIMIT 1
    ) AS g
    WHERE q.name = p_queue AND q.release_interval IS NULL AND q.fairness = 'turns' AND q.max_share IS NULL
        AND q.paused_at IS NULL AND g.seen_at = q.changed_at AND v_room.side IS NOT NULL;
    IF FOUND THEN
        SELECT array_agg(u.id), (array_agg(s.place) FILTER (WHERE n.side = v_room.side))[1],
            array_agg(u.id) FILTER (WHERE n.side = v_room.side)
        INTO v_held, v_room.place, v_own
        FROM generate_series(0, 7) AS n (side)
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place, o.held FROM pgqueue_gate_side AS o
            WHERE o.queue = p_queue AND o.side = n.side ORDER BY o.seq DESC LIMIT 1
        ) AS s
        CROSS JOIN LATERAL unnest(s.held) AS u (id);
        SELECT count(*), array_agg(l.id) FILTER (WHERE l.id = ANY (v_own)) INTO v_count, v_room.ids
        FROM pgqueue_live_leases(v_gate.held || v_held) AS l;
    END IF;
    IF v_count + 8 <= v_gate.max_concurrency THEN
        v_room.messages := 1;
        v_room.contended := false;
        RETURN v_room;
    END IF;
    RAISE lock_not_available;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN v_room;
END;
$$;
