-- Computes how many messages a dequeue may take of a queue with limits, and lets one dequeue at a time do so.
-- Caller: pgqueue_take_guarded.
-- The caller leases the messages in the same transaction, and writes the list of leases back. So no other transaction
-- can lease from the queue between this count and the commit, and the limit is exact. The queue's row is read after the
-- gate was locked. The rate is a token bucket, kept as that of a channel (pgqueue_allowance). Corrections of what
-- messages cost (pgqueue_adjust_rates) are charged here.
-- A list of leases that was begun before the present limits, or less than 10 minutes after, may miss a lease that was
-- taken without them: then all leases are read.
-- Returns messages: at most p_limit, 0 when the queue is paused or at a limit; contended: another dequeue holds the
--   gate; place: where the gate is stored; ids, channel_ids: the live leases, which the list must hold; seen_at: the
--   change of the limits that the list goes by; next_at, step: the bucket's time, and how far a message of cost 1 moves
--   it; tokens, burst: in the bucket, and the most it has, NULL without a rate; wanted: see pgqueue_gate; by_share:
--   fairness is share; most: what one channel may have leased, NULL without max_share.
-- Locks: the queue's gate, SKIP LOCKED; pg_try_advisory_xact_lock, while the gate is made. It never waits.
CREATE FUNCTION pgqueue_queue_allowance(
    p_queue text,
    p_limit integer,
    OUT messages integer,
    OUT contended boolean,
    OUT place tid,
    OUT ids bigint[],
    OUT channel_ids bigint[],
    OUT seen_at timestamptz,
    OUT next_at timestamptz,
    OUT step interval,
    OUT tokens numeric,
    OUT burst integer,
    OUT wanted integer,
    OUT by_share boolean,
    OUT most integer
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_gate pgqueue_gate;
    v_queue pgqueue_queue;
    v_now timestamptz;
    v_spent bigint;
BEGIN
    messages := 0;
    contended := false;
    place := pgqueue_lock_gate(p_queue);
    IF place IS NULL THEN
        contended := NOT EXISTS (
            SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL);
        RETURN;
    END IF;
    SELECT g.* INTO v_gate FROM pgqueue_gate AS g WHERE g.ctid = place;
    SELECT q.* INTO v_queue FROM pgqueue_queue AS q WHERE q.name = p_queue;
    v_now := clock_timestamp();
    IF v_queue.paused_at IS NOT NULL THEN
        RETURN;
    END IF;
    seen_at := CASE WHEN v_queue.changed_at < v_now - interval '10 minutes' THEN v_queue.changed_at END;
    SELECT coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.channel_id), '{}') INTO ids, channel_ids
    FROM pgqueue_queue_leases(
        p_queue, CASE WHEN v_gate.seen_at IS NOT DISTINCT FROM v_queue.changed_at THEN v_gate.held END) AS l;
    step := coalesce(v_queue.release_interval, '0');
    next_at := v_gate.next_at;
    IF step > '0' THEN
        -- Takes the corrections out of the table, which only the holder of the gate does.
        WITH gone AS (
            DELETE FROM pgqueue_spent AS s WHERE s.queue = p_queue RETURNING s.cost
        )
        SELECT sum(n.cost) INTO v_spent FROM gone AS n;
        -- The interval may have been shortened, or the clock set back: the new time holds at once.
        next_at := pgqueue_bucket_time(next_at, v_gate.debt, step, v_queue.release_burst, v_now)
            + coalesce(pgqueue_token_time(step, v_spent), '0');
        burst := v_queue.release_burst;
        tokens := extract(epoch FROM v_now + (burst - 1) * step - greatest(next_at, v_now)) / extract(epoch FROM step)
            + 1;
        IF next_at <> v_gate.next_at THEN
            UPDATE pgqueue_gate AS g
            SET seq = nextval('pgqueue_gate_seq'), next_at = pgqueue_queue_allowance.next_at,
                debt = nullif(greatest(-floor(tokens), 0), 0)
            WHERE g.ctid = place
            RETURNING g.ctid INTO place;
        END IF;
        wanted := v_gate.wanted;
    END IF;
    messages := greatest(
        0, least(p_limit, v_queue.max_concurrency - cardinality(ids), floor(tokens)))::integer;
    by_share := v_queue.fairness = 'share';
    most := pgqueue_share_limit(v_queue);
END;
$$;
