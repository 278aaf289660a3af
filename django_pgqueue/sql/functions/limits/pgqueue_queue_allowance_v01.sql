-- Computes how many messages a dequeue may take of a queue with limits, and lets one dequeue at a time do so.
-- The caller leases the messages in the same transaction, and writes the list of leases back. So no other transaction
-- can lease from the queue between this count and the commit, and the limit is exact. The queue's row is read after the
-- gate was locked. The rate is a token bucket, kept as that of a channel (pgqueue_allowance). Corrections of what
-- messages cost (pgqueue_adjust_rates) are charged here.
-- A list of leases that was begun before the present limits, or less than 10 minutes after, may miss a lease that was
-- taken without them: then all leases are read.
-- Returns the room of the queue, see pgqueue_queue_room. The channels of the leases are left out where no share is
--   looked at.
-- Locks: the queue's gate, SKIP LOCKED; pg_try_advisory_xact_lock, while the gate is made. It never waits.
CREATE FUNCTION pgqueue_queue_allowance(p_queue text, p_limit integer)
RETURNS pgqueue_queue_room
LANGUAGE plpgsql
AS $$
DECLARE
    v_room pgqueue_queue_room;
    v_gate record;
    v_queue pgqueue_queue;
    v_now timestamptz;
    v_spent bigint;
BEGIN
    v_room.messages := 0;
    v_room.contended := false;
    SELECT q.* INTO v_queue FROM pgqueue_queue AS q WHERE q.name = p_queue;
    IF v_queue.paused_at IS NOT NULL THEN
        RETURN v_room;
    END IF;
    v_gate := pgqueue_lock_gate(p_queue);
    v_room.place := v_gate.place;
    -- Once more: the limits may have changed before the gate was locked.
    SELECT q.* INTO v_queue FROM pgqueue_queue AS q WHERE q.name = p_queue;
    IF v_queue.paused_at IS NOT NULL OR v_room.place IS NULL THEN
        v_room.contended := v_queue.paused_at IS NULL;
        RETURN v_room;
    END IF;
    v_now := clock_timestamp();
    v_room.seen_at := CASE WHEN v_queue.changed_at < v_now - interval '10 minutes' THEN v_queue.changed_at END;
    v_room.by_share := v_queue.fairness = 'share';
    v_room.most := CASE WHEN v_queue.max_share IS NOT NULL THEN pgqueue_share_limit(v_queue) END;
    IF v_gate.seen_at IS NOT DISTINCT FROM v_queue.changed_at THEN
        SELECT coalesce(array_agg(l.id), '{}'), array_agg(l.channel_id) INTO v_room.ids, v_room.channel_ids
        FROM pgqueue_live_leases(v_gate.held || pgqueue_beside_gate(p_queue)) AS l;
    ELSE
        SELECT coalesce(array_agg(l.id), '{}'), array_agg(l.channel_id) INTO v_room.ids, v_room.channel_ids
        FROM pgqueue_queue_leases(p_queue, NULL) AS l;
    END IF;
    v_room.channel_ids := CASE WHEN v_room.by_share OR v_room.most IS NOT NULL THEN v_room.channel_ids END;
    v_room.channel_ids := coalesce(v_room.channel_ids, '{}');
    v_room.step := coalesce(v_queue.release_interval, '0');
    v_room.next_at := v_gate.next_at;
    IF v_room.step > '0' THEN
        -- Takes the corrections out of the table, which only the holder of the gate does.
        WITH gone AS (
            DELETE FROM pgqueue_spent AS s WHERE s.queue = p_queue RETURNING s.cost
        )
        SELECT sum(n.cost) INTO v_spent FROM gone AS n;
        -- The interval may have been shortened, or the clock set back: the new time holds at once.
        v_room.next_at := pgqueue_bucket_time(
            v_gate.next_at, v_gate.debt, v_room.step, v_queue.release_burst, v_now)
            + coalesce(pgqueue_token_time(v_room.step, v_spent), '0');
        v_room.burst := v_queue.release_burst;
        v_room.tokens := extract(epoch FROM v_now + (v_room.burst - 1) * v_room.step - greatest(v_room.next_at, v_now))
            / extract(epoch FROM v_room.step) + 1;
        IF v_room.next_at <> v_gate.next_at THEN
            UPDATE pgqueue_gate AS g
            SET seq = nextval('pgqueue_gate_seq'), next_at = v_room.next_at,
                debt = nullif(greatest(-floor(v_room.tokens), 0), 0)
            WHERE g.ctid = v_room.place
            RETURNING g.ctid INTO v_room.place;
        END IF;
        v_room.wanted := v_gate.wanted;
    END IF;
    v_room.messages := greatest(
        0, least(p_limit, v_queue.max_concurrency - cardinality(v_room.ids), floor(v_room.tokens)))::integer;
    RETURN v_room;
END;
$$;
