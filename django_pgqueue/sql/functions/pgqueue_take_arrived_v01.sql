-- Takes single messages straight from their arrivals, without a lane: the short way while nobody stands in line.
-- Caller: pgqueue_take, when the line is empty and no more than 16 arrivals are there, all of single messages on channels without limits:
-- so no message overtakes another of its channel, and no channel waits for more than these.
-- Returns the locked ids. Locks: arrivals and messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_take_arrived(p_queue text, p_limit integer, p_arrival_xid xid8)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_places tid[];
    v_ids bigint[];
    v_got bigint[];
BEGIN
    SELECT array_agg(n.place ORDER BY n.floor_rank, n.floor_at, n.floor_id),
        array_agg(n.floor_id ORDER BY n.floor_rank, n.floor_at, n.floor_id)
    INTO v_places, v_ids
    FROM (
        SELECT a.ctid AS place, a.floor_rank, a.floor_at, a.floor_id
        FROM pgqueue_arrival AS a
        JOIN pgqueue_channel AS c ON c.id = a.channel_id
        WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= p_arrival_xid AND a.messages = 1
            -- An arrival may have come since the caller looked.
            AND (c.released_at IS NOT NULL
                OR c.max_concurrency IS NULL AND c.release_interval IS NULL AND c.paused_at IS NULL)
        ORDER BY a.floor_rank, a.floor_at, a.floor_id
        LIMIT p_limit
        FOR UPDATE OF a SKIP LOCKED
    ) AS n;
    IF v_ids IS NULL THEN
        RETURN '{}';
    END IF;
    v_got := ARRAY(SELECT m.id FROM pgqueue_message AS m WHERE m.id = ANY (v_ids) AND m.status = 1 FOR UPDATE SKIP LOCKED);
    -- Somebody else has one of them, or it has gone: all of them go the long way, in their order.
    IF cardinality(v_got) < cardinality(v_ids) THEN
        RETURN '{}';
    END IF;
    DELETE FROM pgqueue_arrival AS a WHERE a.ctid = ANY (v_places);
    RETURN v_ids;
END;
$$;
