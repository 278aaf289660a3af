-- Folds arrivals into lanes: creates the lane of a channel, lowers its floor, or brings it back into the line.
-- Caller: pgqueue_take and pgqueue_tick, with the floors that they have read; p_lazy: the news that can wait, or those that cannot.
-- Returns true when it had to leave a lane to somebody else.
-- Locks: arrivals and lanes, SKIP LOCKED; a lane that does not exist yet by pg_try_advisory_xact_lock. It never waits.
-- No wake-up is missed: an arrival is consumed only under the lock of its lane, and what becomes visible later is an arrival of its own.
CREATE FUNCTION pgqueue_absorb(p_queue text, p_arrival_xid xid8, p_lane_seq bigint, p_lazy boolean)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_held bigint[] := '{}';
    v_places tid[] := '{}';
    v_seen integer;
    v_known integer;
    v_seq bigint;
    v_channels integer := 0;
    v_news record;
    v_lane pgqueue_lane;
    v_into_line boolean;
BEGIN
    IF p_lazy THEN
        -- Most of the news that can wait change nothing: the lane stands in the line, at or before them. One statement for all of these.
        WITH looked AS (
            SELECT a.ctid AS place, a.channel_id, a.floor_rank, a.floor_at, a.floor_id
            FROM pgqueue_arrival AS a
            WHERE a.queue = p_queue AND a.lazy AND a.xid >= p_arrival_xid
            ORDER BY a.xid
            LIMIT 1000
            FOR UPDATE SKIP LOCKED
        ),
        known AS (
            SELECT n.place FROM looked AS n
            CROSS JOIN LATERAL (
                SELECT l.parked_until, l.floor_rank, l.floor_at, l.floor_id FROM pgqueue_lane AS l
                WHERE l.channel_id = n.channel_id AND l.seq >= p_lane_seq
                ORDER BY l.seq DESC LIMIT 1
                FOR UPDATE SKIP LOCKED
            ) AS l
            WHERE l.parked_until IS NULL
                AND (n.floor_id IS NULL OR (l.floor_rank, l.floor_at, l.floor_id) <= (n.floor_rank, n.floor_at, n.floor_id))
        ),
        gone AS (
            DELETE FROM pgqueue_arrival AS a WHERE a.ctid = ANY (ARRAY(SELECT k.place FROM known AS k))
        )
        SELECT count(*), (SELECT count(*) FROM known) INTO v_seen, v_known FROM looked;
        IF v_seen = v_known AND v_seen < 1000 THEN
            RETURN false;
        END IF;
    END IF;
    -- Up to 10,000 news and about 200 channels a call. Channels that somebody else holds must not hide those behind them.
    FOR v_round IN 1..10 LOOP
        v_seen := 0;
        FOR v_news IN
            SELECT n.channel_id,
                array_agg(n.place) AS places,
                bool_or(n.kind = 0) AS recheck,
                -- The rows come in the order of their keys, with the keyless ones of kind 0 behind.
                (array_agg(n.floor_rank))[1] AS floor_rank,
                (array_agg(n.floor_at))[1] AS floor_at,
                (array_agg(n.floor_id))[1] AS floor_id
            FROM (
                SELECT a.place, a.channel_id, a.kind, a.floor_rank, a.floor_at, a.floor_id
                FROM (
                    SELECT a.ctid AS place, a.channel_id, a.kind, a.floor_rank, a.floor_at, a.floor_id
                    FROM pgqueue_arrival AS a
                    WHERE a.queue = p_queue AND a.lazy = p_lazy AND a.xid >= p_arrival_xid AND a.channel_id <> ALL (v_held)
                    ORDER BY a.xid
                    LIMIT 1000
                    FOR UPDATE SKIP LOCKED
                ) AS a
                ORDER BY a.channel_id, a.floor_rank, a.floor_at, a.floor_id
            ) AS n
            GROUP BY n.channel_id
        LOOP
            v_seen := v_seen + cardinality(v_news.places);
            v_channels := v_channels + 1;
            SELECT l.* INTO v_lane FROM pgqueue_lane AS l
            WHERE l.channel_id = v_news.channel_id AND l.seq >= p_lane_seq
            ORDER BY l.seq DESC LIMIT 1
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                -- Held by somebody, parked, or not there. One session at a time may bring a channel into the line.
                IF NOT pg_try_advisory_xact_lock(hashint8extended(v_news.channel_id, 7205)) THEN
                    v_held := v_held || v_news.channel_id;
                    CONTINUE;
                END IF;
                -- A channel that never had a limit or a pause has no lane elsewhere. One that goes on after a pause may have: somebody
                -- else may hold the news of that, and a second lane would hide the messages that wait at the first.
                INSERT INTO pgqueue_lane (channel_id, queue, floor_rank, floor_at, floor_id)
                SELECT c.id, c.queue, v_news.floor_rank, v_news.floor_at, v_news.floor_id
                FROM pgqueue_channel AS c
                WHERE c.id = v_news.channel_id AND v_news.floor_id IS NOT NULL AND c.changed_at IS NULL AND NOT pgqueue_is_limited(c)
                    AND NOT EXISTS (
                        SELECT FROM pgqueue_lane AS l WHERE l.channel_id = v_news.channel_id AND l.seq >= p_lane_seq);
                IF FOUND THEN
                    v_places := v_places || v_news.places;
                    CONTINUE;
                END IF;
                -- A limited channel keeps its lane; parked for long, it stands below the floor. Its newest entry is the one that lives:
                -- looked up first and locked by its key, because a search for one to lock would walk all that are dead. That of another
                -- channel has been held or removed a moment ago, and none of it stands below the floor.
                SELECT l.seq INTO v_seq FROM pgqueue_lane AS l
                WHERE l.channel_id = v_news.channel_id AND l.seq >= coalesce((
                    SELECT p_lane_seq FROM pgqueue_channel AS c
                    WHERE c.id = v_news.channel_id AND c.changed_at IS NULL AND NOT pgqueue_is_limited(c)), 0)
                ORDER BY l.seq DESC LIMIT 1;
                IF FOUND THEN
                    SELECT l.* INTO v_lane FROM pgqueue_lane AS l
                    WHERE l.channel_id = v_news.channel_id AND l.seq = v_seq
                    FOR UPDATE SKIP LOCKED;
                    IF NOT FOUND THEN
                        v_held := v_held || v_news.channel_id;
                        CONTINUE;
                    END IF;
                ELSE
                    INSERT INTO pgqueue_lane (channel_id, queue, floor_rank, floor_at, floor_id)
                    SELECT c.id, c.queue, v_news.floor_rank, v_news.floor_at, v_news.floor_id
                    FROM pgqueue_channel AS c
                    WHERE c.id = v_news.channel_id AND v_news.floor_id IS NOT NULL;
                    v_places := v_places || v_news.places;
                    CONTINUE;
                END IF;
            END IF;

            -- A lane at its limit stays parked when more messages come; an empty one (infinite floor) and one that was freed do not.
            v_into_line := v_lane.parked_until IS NOT NULL AND (v_news.recheck OR v_lane.floor_at = 'infinity');
            IF v_news.floor_id IS NULL
                OR (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id) <= (v_news.floor_rank, v_news.floor_at, v_news.floor_id)
            THEN
                v_news.floor_rank := v_lane.floor_rank;
                v_news.floor_at := v_lane.floor_at;
                v_news.floor_id := v_lane.floor_id;
            END IF;
            IF v_into_line OR (v_news.floor_rank, v_news.floor_at, v_news.floor_id)
                <> (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            THEN
                UPDATE pgqueue_lane AS l
                SET floor_rank = v_news.floor_rank,
                    floor_at = v_news.floor_at,
                    floor_id = v_news.floor_id,
                    parked_until = CASE WHEN v_into_line THEN NULL ELSE l.parked_until END,
                    seq = CASE WHEN v_into_line THEN nextval('pgqueue_lane_seq') ELSE l.seq END
                WHERE l.channel_id = v_news.channel_id AND l.seq = v_lane.seq;
            END IF;
            v_places := v_places || v_news.places;
        END LOOP;
        IF v_places <> '{}' THEN
            DELETE FROM pgqueue_arrival AS a WHERE a.ctid = ANY (v_places);
            v_places := '{}';
        END IF;
        EXIT WHEN v_seen < 1000 OR v_channels >= 200;
    END LOOP;
    RETURN v_held <> '{}';
END;
$$;
