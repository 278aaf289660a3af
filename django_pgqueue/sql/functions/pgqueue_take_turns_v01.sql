-- Gives the lanes of a queue their turns, from p_from on: those that are free, until p_limit messages are taken.
-- Caller: pgqueue_take, with its reading of the clock.
-- Returns ids: locked, in the order of service; last_seq: the last lane that was free, null without one; fold: true about once in eight
--   turns or messages; asleep: this call has been stopped since the clock was read, and its leases would not be counted: nothing is taken.
-- Locks: lanes and messages, SKIP LOCKED. One statement for all lanes costs about as much as one for a single lane.
CREATE FUNCTION pgqueue_take_turns(
    p_queue text,
    p_from bigint,
    p_limit integer,
    p_now timestamptz,
    OUT ids bigint[],
    OUT last_seq bigint,
    OUT fold boolean,
    OUT asleep boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_weights bigint := 1;
    v_line record;
    v_may record;
    v_quotas integer[];
    v_lease_floors timestamptz[];
    v_places bigint[];
    v_counts integer[];
    v_visited bigint;
    v_moved bigint[];
    v_left integer := 0;
BEGIN
    ids := '{}';
    fold := false;
    asleep := false;
    -- A lane's quota is its share of the limit by weight, so the lanes within reach are weighed first.
    IF p_limit > 1 THEN
        SELECT coalesce(sum(c.weight), 1) INTO v_weights
        FROM (
            SELECT l.channel_id FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= p_from
            ORDER BY l.seq LIMIT p_limit
        ) AS n
        JOIN pgqueue_channel AS c ON c.id = n.channel_id;
    END IF;
    SELECT array_agg(n.lane) AS lanes, array_agg(n.channel_id) AS channels, array_agg(n.floor_rank) AS ranks,
        array_agg(n.floor_at) AS ats, array_agg(n.floor_id) AS keys, array_agg(n.served) AS served, array_agg(n.weight) AS weights,
        array_agg(greatest(n.weight - n.served, (p_limit * n.weight + v_weights - 1) / v_weights)::integer) AS quotas,
        array_agg(n.limited) AS limited, bool_or(n.limited) AS some_limited, array_agg(n.next_at) AS nexts,
        array_agg(n.lease_floor) AS lease_floors, max(n.lease_floor) AS lease_floor, max(n.seq) AS last_seq,
        min(n.seq + n.served) AS turn
    INTO v_line
    FROM (
        SELECT l.ctid AS lane, l.seq, l.channel_id, l.floor_rank, l.floor_at, l.floor_id, l.served, l.next_at, l.lease_floor, c.weight,
            pgqueue_is_limited(c) AS limited
        FROM pgqueue_lane AS l
        JOIN pgqueue_channel AS c ON c.id = l.channel_id
        WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= p_from
        ORDER BY l.seq
        LIMIT p_limit
        FOR UPDATE OF l SKIP LOCKED
    ) AS n;
    last_seq := v_line.last_seq;
    IF last_seq IS NULL THEN
        RETURN;
    END IF;
    v_quotas := v_line.quotas;
    v_lease_floors := v_line.lease_floors;
    IF p_now < v_line.lease_floor THEN
        -- Asleep since it read the clock, or the clock was set back: then all leases are counted.
        asleep := clock_timestamp() >= v_line.lease_floor;
        IF asleep THEN
            RETURN;
        END IF;
        v_lease_floors := array_fill('-infinity'::timestamptz, ARRAY[cardinality(v_quotas)]);
    END IF;
    IF v_line.some_limited THEN
        -- As seen after the lanes were locked. A lane without limits has no allowance and keeps its quota.
        SELECT array_agg(coalesce(a.messages, u.quota)) AS quotas, array_agg(a.room) AS rooms, array_agg(a.next_at) AS nexts,
            array_agg(a.lease_floor) AS lease_floors
        INTO v_may
        FROM unnest(v_line.channels, v_line.limited, v_quotas, v_line.nexts, v_lease_floors)
            AS u (channel_id, limited, quota, next_at, lease_floor)
        LEFT JOIN LATERAL pgqueue_allowance(
            CASE WHEN u.limited THEN u.channel_id END, p_now, u.quota, u.next_at, u.lease_floor) AS a ON true;
        v_quotas := v_may.quotas;
    END IF;

    SELECT coalesce(array_agg(t.id), '{}'), coalesce(array_agg(t.place), '{}')
    INTO ids, v_places
    FROM (
        SELECT m.id, u.place
        FROM unnest(v_line.channels, v_line.ranks, v_line.ats, v_line.keys, v_quotas)
            WITH ORDINALITY AS u (channel_id, rank, at, key, quota, place)
        CROSS JOIN LATERAL (
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = u.channel_id AND m.status = 1 AND (-m.priority, m.dequeue_at, m.id) >= (u.rank, u.at, u.key)
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT u.quota
            FOR UPDATE SKIP LOCKED
        ) AS m
        LIMIT p_limit
    ) AS t;
    fold := v_line.turn / 8 < (v_line.turn + cardinality(ids)) / 8;
    v_visited := CASE WHEN cardinality(ids) < p_limit THEN cardinality(v_quotas) ELSE v_places[p_limit] END;

    -- The new floor of a lane is the first message that is left, locked by others or not, as seen after the lane was locked. The lanes go
    -- to the tail in their order: places are drawn before the update, whose order is the planner's own business. They are locked, so
    -- where they are stored does not change, and no plan can walk what they have been.
    WITH turned AS MATERIALIZED (
        SELECT u.place, u.lane, g.count, f.rank, f.dequeue_at, f.id,
            CASE WHEN g.count = 0 OR u.served + g.count >= u.weight THEN nextval('pgqueue_lane_seq') END AS tail
        FROM unnest(v_line.lanes, v_line.channels, v_line.ranks, v_line.ats, v_line.keys, v_line.served, v_line.weights, v_line.limited)
            WITH ORDINALITY AS u (lane, channel_id, rank, at, key, served, weight, limited, place)
        CROSS JOIN LATERAL (SELECT cardinality(array_positions(v_places, u.place)) AS count) AS g
        CROSS JOIN LATERAL (
            SELECT -m.priority AS rank, m.dequeue_at, m.id FROM pgqueue_message AS m
            WHERE m.channel_id = u.channel_id AND m.status = 1 AND (-m.priority, m.dequeue_at, m.id) >= (u.rank, u.at, u.key)
                AND m.id <> ALL (ids)
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT 1
        ) AS f
        WHERE NOT u.limited AND u.place <= v_visited
    ),
    moved AS (
        UPDATE pgqueue_lane AS l
        SET seq = coalesce(n.tail, l.seq),
            served = CASE WHEN n.tail IS NULL THEN l.served + n.count ELSE 0 END,
            ahead = 0,
            floor_rank = n.rank,
            floor_at = n.dequeue_at,
            floor_id = n.id
        FROM turned AS n
        WHERE l.ctid = n.lane
        RETURNING n.place
    )
    SELECT coalesce(array_agg(n.place), '{}') INTO v_moved FROM moved AS n;
    IF v_line.some_limited THEN
        v_counts := ARRAY(
            SELECT CASE WHEN v_line.limited[p.place] THEN cardinality(array_positions(v_places, p.place)) END
            FROM generate_series(1, v_visited) AS p (place)
            ORDER BY p.place);
        v_left := pgqueue_leave_limited(
            v_line.lanes, p_now, v_counts, ids, v_may.rooms, v_may.nexts, v_may.lease_floors);
    END IF;
    IF cardinality(v_moved) + v_left < v_visited THEN
        -- The others were emptied: what comes later has an arrival, which makes a new lane.
        DELETE FROM pgqueue_lane AS l
        USING unnest(v_line.lanes, v_line.limited) WITH ORDINALITY AS u (lane, limited, place)
        WHERE l.ctid = u.lane AND NOT u.limited AND u.place <= v_visited AND u.place <> ALL (v_moved);
    END IF;
END;
$$;
