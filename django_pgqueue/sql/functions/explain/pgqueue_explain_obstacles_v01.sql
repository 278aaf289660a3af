-- Explains what holds up all messages of a channel now (pauses, a message that holds the ordered channel, missing
-- workers, limits of the channel and its queue); then what messages of a channel wait for outside of the line; and the
-- place in the line.
-- p_id: the message that is explained; NULL: the channel itself. p_ready: estimate the place. It takes the weights of
-- other channels as 1, and counts to 1,000. p_alive: a worker that was silent for longer counts as dead.
-- Leases are counted as pgqueue_allowance and pgqueue_queue_allowance count them, and at no higher cost. Consumers by
-- plain SQL are not seen.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_obstacles(p_channel_id bigint, p_id bigint, p_ready boolean, p_alive interval)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_channel pgqueue_channel;
    v_queue pgqueue_queue;
    v_guarded pgqueue_queue;
    v_gate pgqueue_gate;
    v_lane record;
    v_holder pgqueue_message;
    v_label text;
    v_failed boolean;
    v_behind integer;
    v_workers record;
    v_has_none boolean;
    v_held record;
    v_own record;
    v_most integer;
    v_weights record;
    v_cost integer;
    v_next_at timestamptz;
    v_open_at timestamptz;
    v_blocked boolean;
    v_until record;
    v_messages integer;
    v_some text;
    v_channels integer;
    v_others integer;
    v_place integer;
    v_ticked_at timestamptz;
BEGIN
    SELECT c.* INTO v_channel FROM pgqueue_channel AS c WHERE c.id = p_channel_id;
    SELECT q.* INTO v_queue FROM pgqueue_queue AS q WHERE q.name = v_channel.queue;
    SELECT l.queue, l.seq, l.fresh, l.seq IS NOT NULL AND l.parked_until IS NULL AS in_line, l.current_id, l.next_at,
        l.debt,
        -- After the clock was set back, all leases are counted.
        CASE WHEN l.lease_floor <= v_now THEN l.lease_floor ELSE '-infinity' END AS lease_floor,
        CASE WHEN l.floor_at < 'infinity' THEN l.floor_rank ELSE -32768 END::smallint AS floor_rank,
        CASE WHEN l.floor_at < 'infinity' THEN l.floor_at ELSE '-infinity' END AS floor_at,
        CASE WHEN l.floor_at < 'infinity' THEN l.floor_id ELSE 0 END AS floor_id
    INTO v_lane
    FROM (SELECT) AS o
    LEFT JOIN LATERAL (
        SELECT n.* FROM pgqueue_lane AS n WHERE n.channel_id = p_channel_id ORDER BY n.seq DESC LIMIT 1) AS l ON true;

    -- The cast is as in pgqueue_announce.
    SELECT m.* INTO v_holder FROM pgqueue_message AS m
    WHERE v_channel.ordered AND m.id = v_lane.current_id AND m.channel_id = p_channel_id
        AND (m.status::integer = 1 AND m.held_until > v_now OR m.status::integer = 3 AND m.waits_for >= 0);
    IF FOUND THEN
        SELECT w.label INTO v_label FROM pgqueue_explain_waits(v_holder, false) AS w WHERE w.code = 'waits_for_limit';
        -- An error is that of the last delivery if both began at the same time.
        v_failed := v_label IS NULL
            AND (v_holder.errors -> -1 ->> 'leased_at')::timestamptz IS NOT DISTINCT FROM v_holder.last_leased_at;
        SELECT count(*) INTO v_behind FROM (
            SELECT FROM pgqueue_message AS m
            WHERE m.channel_id = p_channel_id AND m.status = 1 AND m.id <> v_holder.id LIMIT 1000) AS n;
    END IF;

    SELECT count(*) FILTER (WHERE n.alive) AS alive, count(*) FILTER (WHERE n.alive AND n.paused) AS paused,
        count(*) FILTER (WHERE n.alive AND NOT n.paused AND n.running >= n.concurrency) AS busy,
        sum(n.running) FILTER (WHERE n.alive AND NOT n.paused) AS running,
        max(n.seconds) FILTER (WHERE n.alive AND NOT n.paused) AS seconds,
        count(*) FILTER (WHERE n.state = 'stopping') AS stopping, max(n.heartbeat_at) AS heartbeat_at,
        string_agg(DISTINCT nullif(n.pause_reason, ''), '; ') FILTER (WHERE n.alive AND n.paused) AS reason
    INTO v_workers
    FROM (
        SELECT w.state, w.heartbeat_at, w.concurrency, w.pause_reason, w.paused_at IS NOT NULL AS paused,
            w.heartbeat_at > v_now - p_alive AND w.state <> 'stopping' AS alive,
            CASE WHEN jsonb_typeof(w.running) = 'array' THEN jsonb_array_length(w.running) ELSE 0 END AS running,
            -- The longest running is the first.
            (w.running -> 0 ->> 'seconds')::numeric AS seconds
        FROM pgqueue_worker AS w WHERE w.queues ? v_channel.queue
    ) AS n;
    v_has_none := v_workers.alive = 0;

    -- A queue without limits pays for none of these.
    IF pgqueue_is_guarded(v_queue) THEN
        v_guarded := v_queue;
        SELECT g.* INTO v_gate FROM pgqueue_gate AS g WHERE g.queue = v_queue.name ORDER BY g.seq DESC LIMIT 1;
        v_open_at := pgqueue_gate_time(v_queue, v_gate);
        v_most := pgqueue_share_limit(v_queue);
    END IF;
    SELECT coalesce(sum(h.leased), 0) AS leased, coalesce(sum(h.expired), 0) AS expired,
        coalesce(max(h.leased) FILTER (WHERE h.channel_id = p_channel_id), 0) AS own,
        string_agg(format('%s (%s)', h.name, h.leased), ', ' ORDER BY h.place) FILTER (WHERE h.place <= 5)
            || CASE WHEN count(*) > 5 THEN ' and others' ELSE '' END AS holders,
        jsonb_agg(jsonb_build_object('channel', h.name, 'messages', h.leased) ORDER BY h.place)
            FILTER (WHERE h.place <= 5) AS held_by,
        array_agg(h.channel_id) AS channel_ids
    INTO v_held
    FROM (
        SELECT l.channel_id, coalesce(c.name, '?') AS name, count(*) AS leased,
            count(*) FILTER (WHERE l.lease_expires_at <= v_now) AS expired,
            row_number() OVER (ORDER BY count(*) DESC, c.name) AS place
        FROM pgqueue_queue_leases(v_queue.name,
            CASE WHEN v_gate.seen_at IS NOT DISTINCT FROM v_queue.changed_at THEN v_gate.held END) AS l
        LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id
        WHERE v_guarded.name IS NOT NULL
        GROUP BY l.channel_id, c.name
    ) AS h;
    SELECT w.waiting, ceil((v_held.leased + 1) * v_channel.weight / w.total::double precision)::integer AS share
    INTO v_weights
    FROM pgqueue_line(v_queue.name, v_now) AS n
    CROSS JOIN LATERAL pgqueue_share_weights(v_queue.name, v_held.channel_ids, n.lane_seq, n.fresh_seq) AS w
    WHERE v_guarded.fairness = 'share';

    -- A released channel drains without its limits, also when it is paused.
    SELECT sum(h.running) AS running, sum(h.expired) AS expired,
        string_agg(format('%s (%s)', h.worker, h.running), ', ' ORDER BY h.place) FILTER (WHERE h.place <= 5)
            || CASE WHEN count(*) > 5 THEN ' and others' ELSE '' END AS holders,
        jsonb_agg(jsonb_build_object('worker', h.worker, 'messages', h.running, 'leased_at', h.leased_at)
            ORDER BY h.place) FILTER (WHERE h.place <= 5) AS held_by
    INTO v_own
    FROM (
        SELECT coalesce(m.worker, '?') AS worker, count(*) AS running, min(m.leased_at) AS leased_at,
            count(*) FILTER (WHERE m.lease_expires_at <= v_now) AS expired,
            row_number() OVER (ORDER BY count(*) DESC, coalesce(m.worker, '?')) AS place
        FROM pgqueue_message AS m
        WHERE m.channel_id = p_channel_id AND m.status = 2 AND m.leased_at >= v_lane.lease_floor
            AND v_channel.max_concurrency IS NOT NULL AND v_channel.released_at IS NULL
        GROUP BY coalesce(m.worker, '?')
    ) AS h;
    IF v_channel.released_at IS NULL AND v_lane.next_at > v_now THEN
        v_cost := coalesce((
            SELECT m.cost FROM pgqueue_message AS m
            WHERE m.channel_id = p_channel_id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1), 1);
        v_next_at := pgqueue_bucket_time(v_lane.next_at, v_lane.debt, v_channel.release_interval,
            v_channel.release_burst, v_now) - pgqueue_token_time(v_channel.release_interval,
            v_channel.release_burst - least(v_cost, v_channel.release_burst));
    END IF;

    RETURN QUERY SELECT n.code, n.sentence, n.facts FROM (VALUES
    (v_channel.id IS NULL, 'channel_missing',
        format('Its channel (id %s) was deleted by hand: no worker serves it. '
            'Make a channel with this id, or cancel the message.', p_channel_id),
        jsonb_build_object('channel_id', p_channel_id)),
    (v_queue.paused_at IS NOT NULL, 'queue_paused',
        format('Queue %s is paused since %s%s.%s', v_queue.name, date_trunc('second', v_queue.paused_at),
            ' until ' || date_trunc('second', v_queue.paused_until),
            ' Reason: ' || left(nullif(v_queue.pause_reason, ''), 500)),
        jsonb_build_object('queue', v_queue.name, 'paused_at', v_queue.paused_at, 'until', v_queue.paused_until,
            'reason', v_queue.pause_reason)),
    (v_channel.paused_at IS NOT NULL AND v_channel.released_at IS NULL, 'channel_paused',
        format('Channel %s of queue %s is paused since %s%s.%s', v_channel.name, v_channel.queue,
            date_trunc('second', v_channel.paused_at), ' until ' || date_trunc('second', v_channel.paused_until),
            ' Reason: ' || left(nullif(v_channel.pause_reason, ''), 500)),
        jsonb_build_object('queue', v_channel.queue, 'channel', v_channel.name, 'paused_at', v_channel.paused_at,
            'until', v_channel.paused_until, 'reason', v_channel.pause_reason)),
    (v_holder.id IS NOT NULL, 'ordered',
        format('Channel %s is ordered, and message %s holds it%s, because %s. Messages that wait behind it: %s%s.',
            v_channel.name, v_holder.id,
            CASE WHEN v_label IS NULL THEN ' until ' || date_trunc('second', v_holder.held_until) END,
            CASE
                WHEN v_label IS NOT NULL THEN 'it waits for ' || v_label
                WHEN v_failed THEN format('its attempt %s failed', v_holder.attempts)
                    || coalesce(' with ' || left(v_holder.errors -> -1 ->> 'type', 200), '')
                ELSE 'it was deferred' END,
            CASE WHEN v_behind = 1000 THEN 'at least ' END, v_behind),
        jsonb_build_object('message', v_holder.id, 'held_until', CASE WHEN v_label IS NULL THEN v_holder.held_until END,
            'attempt', v_holder.attempts, 'failed', v_failed, 'behind', v_behind)),
    (v_has_none, 'no_worker',
        format('No worker serves queue %s.%s%s', v_channel.queue,
            ' The last heartbeat of one was at ' || date_trunc('second', v_workers.heartbeat_at) || '.',
            ' Stopping: ' || nullif(v_workers.stopping, 0) || '.'),
        jsonb_build_object('queue', v_channel.queue, 'heartbeat_at', v_workers.heartbeat_at,
            'stopping', v_workers.stopping)),
    (v_workers.alive > 0 AND v_workers.paused = v_workers.alive, 'workers_paused',
        format('All workers of queue %s (%s) are paused.%s', v_channel.queue, v_workers.paused,
            ' Reason: ' || left(v_workers.reason, 500)),
        jsonb_build_object('queue', v_channel.queue, 'workers', v_workers.alive, 'reason', v_workers.reason)),
    (v_workers.busy > 0 AND v_workers.busy = v_workers.alive - v_workers.paused, 'workers_busy',
        format('All workers of queue %s (%s) are busy: they run %s messages, the longest for %s s.', v_channel.queue,
            v_workers.busy, v_workers.running, v_workers.seconds),
        jsonb_build_object('queue', v_channel.queue, 'workers', v_workers.busy, 'running', v_workers.running,
            'longest_seconds', v_workers.seconds)),
    (v_held.leased >= v_guarded.max_concurrency, 'queue_concurrency',
        format('Queue %s is at its limit: %s of %s messages are leased, by channels %s.%s', v_queue.name, v_held.leased,
            v_queue.max_concurrency, v_held.holders,
            ' Expired, and waiting for the sweep: ' || nullif(v_held.expired, 0) || '.'),
        jsonb_build_object('running', v_held.leased, 'max_concurrency', v_queue.max_concurrency,
            'expired', v_held.expired, 'held_by', v_held.held_by)),
    (v_open_at > v_now, 'queue_rate',
        format('Queue %s may be served once in %s: the next time at %s.', v_queue.name, v_queue.release_interval,
            date_trunc('milliseconds', v_open_at)),
        jsonb_build_object('next_at', v_open_at, 'release_interval', v_queue.release_interval,
            'release_burst', v_queue.release_burst)),
    (v_held.own >= v_most, 'max_share',
        format('Channel %s may hold %s messages at a time, %s of the slots of queue %s: it holds %s.', v_channel.name,
            v_most, v_queue.max_share::real, v_queue.name, v_held.own),
        jsonb_build_object('running', v_held.own, 'most', v_most, 'max_share', v_queue.max_share::real)),
    ((v_held.own >= v_most) IS NOT TRUE AND v_held.own >= v_weights.share AND v_weights.waiting > v_channel.weight,
        'share',
        format('Channel %s holds %s of the %s leases of queue %s, which is its share: it waits while channels below '
            'their share wait.', v_channel.name, v_held.own, v_held.leased, v_queue.name),
        jsonb_build_object('running', v_held.own, 'share', v_weights.share, 'leased', v_held.leased)),
    (v_own.running >= v_channel.max_concurrency, 'concurrency',
        format('Channel %s is at its limit: %s of %s messages are leased, held by %s.%s', v_channel.name, v_own.running,
            v_channel.max_concurrency, v_own.holders,
            ' Expired, and waiting for the sweep: ' || nullif(v_own.expired, 0) || '.'),
        jsonb_build_object('running', v_own.running, 'max_concurrency', v_channel.max_concurrency,
            'expired', v_own.expired, 'held_by', v_own.held_by)),
    (v_next_at > v_now, 'rate',
        format('Channel %s may be served once in %s%s: the next time at %s.', v_channel.name,
            v_channel.release_interval,
            ' for a cost of 1, and its next message costs ' || nullif(greatest(v_cost, 1), 1),
            date_trunc('milliseconds', v_next_at)),
        jsonb_build_object('next_at', v_next_at, 'release_interval', v_channel.release_interval,
            'release_burst', v_channel.release_burst, 'cost', v_cost))
    ) AS n (holds, code, sentence, facts)
    WHERE n.holds AND (v_channel.id IS NOT NULL OR n.code = 'channel_missing');
    v_blocked := FOUND;
    IF p_id IS NULL THEN
        -- Limits and breakers, then order keys: the first message that waits for one explains it.
        RETURN QUERY SELECT n.code, n.sentence, n.facts
        FROM (
            SELECT o.id FROM (
                SELECT w.id FROM pgqueue_waiting_limits(0, 1000) AS w (id)
                UNION
                SELECT l.id FROM pgqueue_limit AS l WHERE l.channel_id = p_channel_id
                UNION
                SELECT -1
            ) AS o
            ORDER BY o.id < 0, o.id
        ) AS w
        CROSS JOIN LATERAL (
            SELECT m FROM pgqueue_message AS m WHERE m.waits_for = w.id AND m.channel_id = p_channel_id
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1
        ) AS f (message)
        CROSS JOIN LATERAL pgqueue_explain_waits(f.message, true) AS n;
        -- The type of an error alone: users who may see no errors may see the page of a channel.
        RETURN QUERY
        SELECT CASE WHEN n.is_unknown THEN 'unknown_handler' ELSE 'failed_before' END,
            format('Messages of it that %s: %s%s. The first is message %s: %s.',
                CASE WHEN n.is_unknown THEN 'wait for a worker that knows their handler'
                    ELSE 'failed and wait for their next attempt' END,
                CASE WHEN n.seen = 1000 THEN 'at least ' END, n.messages, m.id,
                CASE WHEN n.is_unknown THEN m.handler ELSE left(m.errors -> -1 ->> 'type', 200) END),
            jsonb_build_object('message', m.id, 'handler', m.handler, 'messages', n.messages)
        FROM (
            SELECT o.is_unknown, count(*) AS messages, (array_agg(o.id ORDER BY o.dequeue_at, o.id))[1] AS id,
                max(o.seen) AS seen
            FROM (
                SELECT s.*, count(*) OVER () AS seen,
                    coalesce(s.errors -> -1 ->> 'type' LIKE '%UnknownHandler', false) AS is_unknown
                FROM (
                    SELECT m.id, m.dequeue_at, m.waits_for, m.errors FROM pgqueue_message AS m
                    WHERE m.channel_id = p_channel_id AND m.status = 3 ORDER BY m.dequeue_at LIMIT 1000) AS s
            ) AS o
            WHERE o.waits_for IS NULL AND (o.is_unknown OR o.errors -> -1 ? 'attempt')
            GROUP BY o.is_unknown
        ) AS n
        JOIN pgqueue_message AS m ON m.id = n.id
        ORDER BY n.is_unknown DESC;
    END IF;
    IF NOT p_ready THEN
        RETURN;
    END IF;
    -- Counts all ready messages, or those before the message. Both bounds are values, so that the index has them.
    SELECT coalesce(max(-m.priority), 32767)::smallint AS rank, coalesce(max(m.dequeue_at), 'infinity') AS due_at,
        coalesce(max(m.id), 9223372036854775807) AS id
    INTO v_until
    FROM pgqueue_message AS m WHERE m.id = p_id;
    SELECT count(*) INTO v_messages FROM (
        SELECT FROM pgqueue_message AS m
        WHERE m.channel_id = p_channel_id AND m.status = 1
            AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            AND (-m.priority, m.dequeue_at, m.id) < (v_until.rank, v_until.due_at, v_until.id)
        ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1000) AS n;
    -- Fresh lanes stand before all others.
    SELECT count(*) FILTER (WHERE (NOT n.fresh, n.seq) < (NOT v_lane.fresh, v_lane.seq)),
        count(*) FILTER (WHERE n.seq <> v_lane.seq)
    INTO v_channels, v_others
    FROM pgqueue_line(v_lane.queue, NULL) AS o
    CROSS JOIN LATERAL (
        (SELECT l.seq, l.fresh FROM pgqueue_lane AS l
        WHERE l.queue = v_lane.queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= o.fresh_head
        ORDER BY l.seq LIMIT 1000)
        UNION ALL
        (SELECT l.seq, l.fresh FROM pgqueue_lane AS l
        WHERE l.queue = v_lane.queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= o.head
        ORDER BY l.seq LIMIT 1000)
        LIMIT 1000
    ) AS n;
    v_place := CASE WHEN v_lane.in_line THEN v_messages + v_channels + v_messages / v_channel.weight * v_others + 1 END;
    v_some := CASE WHEN v_messages = 1000 THEN 'at least ' ELSE '' END || v_messages;
    SELECT max(o.ticked_at) INTO v_ticked_at FROM pgqueue_floor AS o;
    RETURN QUERY SELECT n.* FROM (VALUES
    (CASE WHEN v_lane.floor_at = '-infinity' THEN 'arriving' ELSE 'parked' END,
        CASE WHEN v_lane.floor_at = '-infinity'
            THEN 'The line does not know of it yet: the next dequeue or tick takes it in.'
            ELSE 'It had no room when the line last came to it, and has room now: it comes back by itself.' END,
        '{}'::jsonb),
    ('no_maintenance',
        format('No maintenance has run%s: start a worker, or call pgqueue_sweep by cron.',
            ' since ' || date_trunc('second', v_ticked_at)),
        jsonb_build_object('ticked_at', v_ticked_at))
    ) AS n (code, sentence, facts)
    WHERE NOT v_lane.in_line AND NOT v_blocked AND (
        n.code <> 'no_maintenance' OR coalesce(v_ticked_at, '-infinity') < v_now - interval '10 seconds');
    RETURN QUERY SELECT CASE WHEN v_lane.in_line THEN 'in_line' ELSE 'in_channel' END,
        CASE
            WHEN p_id IS NULL THEN format('Ready messages: %s.', v_some)
            WHEN v_place = 1 THEN 'It is next in line.'
            WHEN v_lane.in_line THEN format(
                'It waits in line, about at place %s: %s messages of its channel go before it.', v_place, v_some)
            ELSE format('Messages of its channel that go before it: %s.', v_some)
        END || CASE WHEN v_place > 1 THEN format(' Channels that stand before this one: %s%s.',
            CASE WHEN v_channels = 1000 THEN 'at least ' END, v_channels) ELSE '' END,
        jsonb_build_object('messages_before', CASE WHEN p_id IS NOT NULL THEN v_messages END,
            'ready', CASE WHEN p_id IS NULL THEN v_messages END, 'channels_before', v_channels,
            'place', CASE WHEN p_id IS NOT NULL THEN v_place END);
END;
$$;
