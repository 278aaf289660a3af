-- Chooses and locks the messages that leave a full channel for new ones. drop_oldest takes as many as places are
-- missing, the longest due first, then scheduled ones by their time. replace takes all ready and
-- scheduled ones. A message that is leased, or is being taken, stays.
-- p_room: places that are free, not counting them; p_new: their ids, in order. New messages arrive one after the other:
-- each makes those before it leave, and the last one stays.
-- Returns the ids; NULL when too few may leave.
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_choose_dropped(
    p_channel_id bigint,
    p_max_size integer,
    p_full_policy text,
    p_room bigint,
    p_new bigint[] DEFAULT '{}'
)
RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_missing bigint := greatest(cardinality(p_new), 1) - p_room;
    v_stay bigint[] := CASE p_full_policy WHEN 'replace' THEN p_new ELSE p_new[cardinality(p_new):] END;
    v_most bigint := CASE p_full_policy WHEN 'replace' THEN p_max_size - p_room ELSE v_missing END;
    v_looked bigint := v_most;
    v_oldest bigint[];
    v_ids bigint[];
    v_scheduled bigint;
    v_gone bigint;
    v_now timestamptz := clock_timestamp();
    v_waits boolean;
BEGIN
    -- While no message waits for a limit or a key (-1), the look for those of the channel would walk dead entries only.
    SELECT count(*) > 0 INTO v_waits FROM (
        SELECT m.waits_for FROM pgqueue_message AS m WHERE m.waits_for >= -1 ORDER BY m.waits_for LIMIT 1
    ) AS w;
    -- Finds those that are due the longest: ready ones, and those that wait for a shared limit or for their order key.
    -- Repeats with more of them, when other transactions take the oldest at this moment.
    LOOP
        v_oldest := (
            -- Lists the priorities of the ready messages, one step of the index each.
            WITH RECURSIVE rank (value) AS (
                (
                    SELECT -m.priority FROM pgqueue_message AS m
                    WHERE m.channel_id = p_channel_id AND m.status = 1
                    ORDER BY -m.priority, m.dequeue_at, m.id
                    LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT -m.priority FROM pgqueue_message AS m
                    WHERE m.channel_id = p_channel_id AND m.status = 1 AND -m.priority > r.value
                    ORDER BY -m.priority, m.dequeue_at, m.id
                    LIMIT 1)
                FROM rank AS r
                WHERE r.value IS NOT NULL
            )
            SELECT coalesce(array_agg(o.id ORDER BY o.dequeue_at, o.id), '{}')
            FROM (
                SELECT h.id, h.dequeue_at
                FROM rank AS r
                -- The index has them by priority: reads the oldest of each.
                CROSS JOIN LATERAL (
                    SELECT m.id, m.dequeue_at FROM pgqueue_message AS m
                    WHERE m.channel_id = p_channel_id AND m.status = 1 AND -m.priority = r.value
                        AND m.id <> ALL (v_stay)
                    ORDER BY -m.priority, m.dequeue_at, m.id
                    LIMIT v_looked
                ) AS h
                UNION ALL
                (
                    SELECT m.id, m.dequeue_at FROM pgqueue_message AS m
                    WHERE v_waits AND m.channel_id = p_channel_id AND m.status = 3 AND m.dequeue_at <= v_now
                        AND m.waits_for >= -1 AND m.id <> ALL (v_stay)
                    ORDER BY m.dequeue_at, m.id
                    LIMIT v_looked
                )
                ORDER BY dequeue_at, id
                LIMIT v_looked
            ) AS o);
        v_ids := ARRAY(
            SELECT m.id
            FROM unnest(v_oldest) AS u (id)
            -- As in pgqueue_reclaim.
            CROSS JOIN LATERAL (
                SELECT m.id FROM pgqueue_message AS m WHERE m.id = u.id AND m.status::integer <> 2
                FOR UPDATE SKIP LOCKED
            ) AS m
            LIMIT v_most);
        EXIT WHEN cardinality(v_ids) = v_most OR cardinality(v_oldest) < v_looked;
        v_looked := v_looked * 4;
    END LOOP;

    -- The scheduled messages are read only as far as the channel has any.
    IF cardinality(v_ids) < v_most THEN
        v_scheduled := p_max_size - p_room + cardinality(p_new)
            - (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = p_channel_id AND m.status = 1)
            - (SELECT count(*) FROM pgqueue_message AS m WHERE m.channel_id = p_channel_id AND m.status = 2);
        v_ids := v_ids || ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = p_channel_id AND m.status = 3 AND m.id <> ALL (v_stay || v_ids)
            ORDER BY m.dequeue_at, m.id
            LIMIT greatest(least(v_most - cardinality(v_ids), v_scheduled), 0)
            FOR UPDATE SKIP LOCKED);
    END IF;
    IF p_full_policy = 'replace' AND p_room + cardinality(v_ids) > 0 AND cardinality(p_new) > 0 THEN
        -- Each time the channel is full again, those that came before leave; so many of the last stay.
        v_gone := cardinality(p_new) - 1 - (cardinality(p_new) - greatest(p_room, 0) - 1)
            % (p_room + cardinality(v_ids));
        v_ids := v_ids || p_new[:v_gone];
    END IF;
    RETURN CASE WHEN cardinality(v_ids) >= v_missing THEN v_ids END;
END;
$$;
