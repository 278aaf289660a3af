-- Removes what channels and sessions that are gone have left in the tables behind the line, and the rows of workers
-- that have been silent for a day; recounts channels with a max_size, tidies breakers up, and brings back lanes that no
-- event brings back.
-- Locks: counts, gates, lanes, workers and breakers, SKIP LOCKED where others may hold them.
CREATE FUNCTION pgqueue_prune_line()
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM pgqueue_lane AS l WHERE NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = l.channel_id);
    DELETE FROM pgqueue_channel_size AS s
    WHERE NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = s.channel_id AND c.max_size IS NOT NULL);
    DELETE FROM pgqueue_gate AS g
    WHERE g.ctid = ANY (ARRAY(
        SELECT o.ctid FROM pgqueue_gate AS o
        WHERE NOT EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = o.queue) FOR UPDATE SKIP LOCKED));
    DELETE FROM pgqueue_gate_side AS g
    WHERE g.ctid = ANY (ARRAY(
        SELECT o.ctid FROM pgqueue_gate_side AS o
        WHERE NOT EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = o.queue) FOR UPDATE SKIP LOCKED));
    DELETE FROM pgqueue_unique_key AS k
    WHERE k.ctid = ANY (ARRAY(
        SELECT o.ctid FROM pgqueue_unique_key AS o
        -- A look for each key, and no join with all messages.
        WHERE coalesce(o.expires_at, '-infinity') < clock_timestamp()
            AND (SELECT m.id FROM pgqueue_message AS m WHERE m.id = o.message_id) IS NULL FOR UPDATE SKIP LOCKED));
    DELETE FROM pgqueue_queue_warning AS w WHERE w.warned_at < clock_timestamp() - interval '1 day';
    DELETE FROM pgqueue_waiter AS w WHERE w.wait_until < clock_timestamp() - interval '1 minute';
    DELETE FROM pgqueue_worker AS w
    WHERE w.name IN (
        SELECT o.name FROM pgqueue_worker AS o
        WHERE o.heartbeat_at < clock_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED);
    PERFORM pgqueue_prune_limits();
    PERFORM pgqueue_recount(ARRAY(SELECT s.channel_id FROM pgqueue_channel_size AS s));
    -- These channels have no event that would bring them back: lanes at a limit look again, lanes below a floor stand
    -- in line again.
    INSERT INTO pgqueue_arrival (queue, channel_id)
    SELECT c.queue, c.id FROM pgqueue_lane AS l JOIN pgqueue_channel AS c ON c.id = l.channel_id
    WHERE l.parked_until = 'infinity' AND l.floor_at < 'infinity' AND c.paused_at IS NULL;
    UPDATE pgqueue_lane AS l SET seq = nextval('pgqueue_lane_seq'), fresh = false, parked_until = NULL
    WHERE l.ctid = ANY (ARRAY(
        SELECT s.ctid FROM pgqueue_lane AS s CROSS JOIN LATERAL pgqueue_floor_of(s.queue) AS f
        WHERE s.parked_until IS NULL AND s.seq < CASE WHEN s.fresh THEN f.fresh_seq ELSE f.lane_seq END
            OR s.parked_until < f.parked_from
        FOR UPDATE OF s SKIP LOCKED));
END;
$$;
