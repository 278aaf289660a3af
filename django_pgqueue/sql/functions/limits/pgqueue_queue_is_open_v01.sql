-- Returns whether the limits of a queue would give a message now: it is not paused, has a free place, its rate allows
-- one, and under max_share a channel in its line is below its limit.
-- Otherwise a worker sleeps: a settlement wakes it when a place is free, and pgqueue_next_due returns when the rate
-- allows a message.
-- Locks: none: another dequeue that holds the gate may be about to take the place.
CREATE FUNCTION pgqueue_queue_is_open(p_queue text)
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_queue pgqueue_queue;
    v_gate pgqueue_gate;
    v_holders bigint[];
    v_most integer;
BEGIN
    SELECT q.* INTO v_queue FROM pgqueue_queue AS q WHERE q.name = p_queue;
    SELECT g.* INTO v_gate FROM pgqueue_gate AS g WHERE g.queue = p_queue ORDER BY g.seq DESC LIMIT 1;
    IF v_queue.paused_at IS NOT NULL OR v_queue.release_interval IS NOT NULL
        AND pgqueue_gate_time(v_queue, v_gate) > clock_timestamp()
    THEN
        RETURN false;
    ELSIF v_queue.max_concurrency IS NULL AND v_queue.max_share IS NULL THEN
        RETURN true;
    END IF;
    v_holders := ARRAY(
        SELECT l.channel_id FROM pgqueue_queue_leases(
            p_queue, CASE WHEN v_gate.seen_at IS NOT DISTINCT FROM v_queue.changed_at THEN v_gate.held END) AS l);
    IF cardinality(v_holders) >= v_queue.max_concurrency THEN
        RETURN false;
    END IF;
    v_most := pgqueue_share_limit(v_queue);
    RETURN v_most IS NULL OR EXISTS (
        SELECT FROM pgqueue_line(p_queue, NULL) AS n
        WHERE n.urgent OR n.lazy OR EXISTS (
            SELECT FROM (
                (SELECT l.channel_id FROM pgqueue_lane AS l
                WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= n.fresh_seq
                ORDER BY l.seq LIMIT 100)
                UNION ALL
                (SELECT l.channel_id FROM pgqueue_lane AS l
                WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= n.lane_seq
                ORDER BY l.seq LIMIT 100)
            ) AS w
            WHERE cardinality(array_positions(v_holders, w.channel_id)) < v_most));
END;
$$;
