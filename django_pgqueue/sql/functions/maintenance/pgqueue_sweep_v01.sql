-- Gives back the messages of dead workers: expired leases go through the retry policy, or become dead letters with the
-- reason poison. Ends the pauses whose time has come, and removes released channels that have drained.
-- The maintenance of a worker runs it each few seconds; cron may, through manage.py sweepqueue or pg_cron. It takes at
-- most p_limit leases a call. Dequeues do a little of it by themselves (pgqueue_bring_back). p_waiting: warn when a
-- message has been ready for longer than this. It writes its findings to the server log, and also ticks.
-- Returns counts. retried, poisoned, cancelled: messages with an expired lease; promoted: messages that were made
--   ready, also those that waited for a shared limit or their order key; not_picked_up: queues with a message that
--   waits for longer than p_waiting; resumed: channels, queues and shared limits whose pause it has ended;
--   mostly a tick has done so before.
-- Locks: messages, channels and queues, SKIP LOCKED: a settlement under way wins over the sweep.
CREATE FUNCTION pgqueue_sweep(p_limit integer DEFAULT 500, p_waiting interval DEFAULT '1 minute')
RETURNS TABLE (retried integer, poisoned integer, cancelled integer, promoted integer, not_picked_up integer,
    resumed integer)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_queue text;
    v_line record;
    v_late record;
    -- One sweep warns at a time: another one would have to wait for the rows of pgqueue_queue_warning.
    v_warns boolean := pg_try_advisory_xact_lock(7205, 4);
BEGIN
    -- The tick resumes, too, but not beside another tick, and it does not count. It comes early, while this transaction
    -- has no xid yet, unless a pause has ended: only then can the floors move.
    resumed := pgqueue_resume_due();
    promoted := pgqueue_tick(p_limit);
    SELECT r.retried, r.poisoned, r.cancelled INTO retried, poisoned, cancelled FROM pgqueue_reclaim(p_limit) AS r;
    not_picked_up := 0;

    PERFORM pgqueue_recount(ARRAY(
        SELECT c.id FROM pgqueue_channel AS c
        WHERE c.changed_at > v_now - interval '10 minutes' AND c.max_size IS NOT NULL));

    -- The head of each line shows how long its channel waits.
    SELECT min(c.queue) INTO v_queue FROM pgqueue_channel AS c;
    WHILE v_queue IS NOT NULL LOOP
        -- Lanes may be parked for a short time: by a rate, or at a limit that is new (pgqueue_allowance).
        PERFORM pgqueue_fold(v_queue, true, v_now + interval '5 seconds');
        -- Reads the first message at or behind the floor, which may stay behind by some that are gone.
        SELECT coalesce(n.head, n.lane_seq) AS lane_seq, coalesce(n.fresh_head, n.fresh_seq) AS fresh_seq INTO v_line
        FROM pgqueue_line(v_queue, v_now) AS n;
        SELECT l.channel_id, m.id, v_now - pgqueue_clamp_time(m.dequeue_at) AS waited INTO v_late
        FROM pgqueue_starts(v_queue, v_line.lane_seq, v_line.fresh_seq, 100) AS l
        CROSS JOIN LATERAL (
            -- A message of an ordered channel keeps its place while it is held, and when it is redriven.
            SELECT n.id, greatest(n.dequeue_at, n.held_until,
                CASE WHEN n.redriven_from IS NOT NULL THEN n.created_at END) AS dequeue_at
            FROM pgqueue_message AS n
            WHERE n.channel_id = l.channel_id AND n.status = 1
                AND (-n.priority, n.dequeue_at, n.id) >= (l.rank, l.at, l.key)
            ORDER BY -n.priority, n.dequeue_at, n.id LIMIT 1
        ) AS m
        -- A channel with a rate whose time was moved meanwhile is served. Each lane is looked up by its channel.
        WHERE m.dequeue_at < v_now - p_waiting AND coalesce((
            SELECT o.next_at FROM pgqueue_lane AS o
            WHERE o.channel_id = l.channel_id
                AND (SELECT c.release_interval FROM pgqueue_channel AS c WHERE c.id = o.channel_id) IS NOT NULL
            ORDER BY o.seq DESC LIMIT 1), '-infinity') <= v_now - p_waiting
        ORDER BY m.dequeue_at LIMIT 1;
        IF FOUND AND NOT EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = v_queue AND q.paused_at IS NOT NULL) THEN
            not_picked_up := not_picked_up + 1;
            -- At most once in ten seconds for each queue. A time in the future comes from a clock that was set back: it
            -- does not prevent a warning.
            INSERT INTO pgqueue_queue_warning AS w (queue, warned_at) SELECT v_queue, v_now WHERE v_warns
            ON CONFLICT (queue) DO UPDATE SET warned_at = excluded.warned_at
            WHERE excluded.warned_at NOT BETWEEN w.warned_at AND w.warned_at + interval '10 seconds';
            IF FOUND THEN
                RAISE WARNING 'pgqueue: queue "%" is not picked up: message % on channel % has been ready for %',
                    v_queue, v_late.id, v_late.channel_id, v_late.waited
                    USING HINT = 'Is a worker running for this queue, and are there enough of them?';
            END IF;
        END IF;
        SELECT min(c.queue) INTO v_queue FROM pgqueue_channel AS c WHERE c.queue > v_queue;
    END LOOP;
    IF to_regproc('pgqueue_batch_sweep') IS NOT NULL THEN
        PERFORM pgqueue_batch_sweep();
    END IF;
    PERFORM pgqueue_remove_released();
    RETURN NEXT;
END;
$$;
