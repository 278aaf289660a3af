-- Receives the arrivals of a queue that cannot wait: takes the message of a lone arrival, or else folds them. On an
-- empty line it also folds those that can wait.
-- An arrival is lone if nothing stands in the line, the queue has no other arrival, and it leads to one message. To
-- fold it would write the lane of its channel twice, only to park it again. Most messages of a queue with little to do
-- are such ones. Here the lane is locked, and stays as it is: parked, without messages. A snapshot that shows the
-- arrival shows all ready messages that have neither another arrival nor a lane that leads to them. If it shows one,
-- and this call takes it, nothing is left that needs the arrival. Channels with limits and messages with an order key
-- need a turn.
-- p_arrival_xid to p_fresh_head: as pgqueue_line returned them; p_now: the caller's reading of the clock.
-- Returns id: the message of a lone arrival, locked, or NULL; name, context: of its channel; place: its lane; looks:
--   true at random, for one message in eight: the caller folds what can wait.
-- Locks: an arrival, its lane and its message, SKIP LOCKED; and as pgqueue_fold.
CREATE FUNCTION pgqueue_receive(
    p_queue text, p_now timestamptz, p_arrival_xid xid8, p_late_xids xid8[], p_head bigint, p_fresh_head bigint,
    OUT id bigint, OUT name varchar, OUT context jsonb, OUT place tid, OUT looks boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_arrival record;
    v_empty boolean := p_head IS NULL AND p_fresh_head IS NULL;
BEGIN
    IF v_empty AND p_late_xids <> '{}' THEN
        v_empty := NOT EXISTS (SELECT FROM pgqueue_late_arrivals(p_queue, p_late_xids));
    END IF;
    IF v_empty THEN
        SELECT a.place, a.channel_id, a.floor_rank, a.floor_at, a.floor_id, c.name, c.context, l.ctid AS lane
        INTO v_arrival
        FROM (
            SELECT n.ctid AS place, n.* FROM pgqueue_arrival AS n
            WHERE n.queue = p_queue AND NOT n.lazy AND n.xid >= p_arrival_xid
            ORDER BY n.xid LIMIT 1 FOR UPDATE SKIP LOCKED
        ) AS a
        JOIN pgqueue_channel AS c ON c.id = a.channel_id AND NOT pgqueue_is_limited(c)
        JOIN pgqueue_lane AS l ON l.channel_id = a.channel_id AND l.seq = (
            SELECT o.seq FROM pgqueue_lane AS o WHERE o.channel_id = a.channel_id ORDER BY o.seq DESC LIMIT 1)
        WHERE a.spent IS NULL AND l.parked_until = 'infinity' AND l.floor_at = 'infinity'
            AND NOT EXISTS (
                SELECT FROM pgqueue_arrival AS o
                WHERE o.queue = p_queue AND NOT o.lazy AND o.xid >= p_arrival_xid AND o.ctid <> a.place)
            AND NOT EXISTS (
                SELECT FROM pgqueue_arrival AS o
                WHERE o.queue = p_queue AND o.lazy AND o.xid >= p_arrival_xid)
        FOR UPDATE OF l SKIP LOCKED;
        IF FOUND THEN
            SELECT min(n.id) INTO id FROM (
                SELECT m.id FROM pgqueue_message AS m
                WHERE m.channel_id = v_arrival.channel_id AND m.status = 1 AND (-m.priority, m.dequeue_at, m.id)
                    >= (v_arrival.floor_rank, v_arrival.floor_at, v_arrival.floor_id)
                ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 2
            ) AS n HAVING count(*) = 1;
            -- The cast is as in pgqueue_announce.
            SELECT m.id INTO id FROM pgqueue_message AS m
            WHERE m.id = pgqueue_receive.id AND m.status::integer = 1 AND m.order_key IS NULL FOR UPDATE SKIP LOCKED;
        END IF;
        IF FOUND THEN
            DELETE FROM pgqueue_arrival AS a WHERE a.ctid = v_arrival.place;
            name := v_arrival.name;
            context := v_arrival.context;
            place := v_arrival.lane;
            looks := random() < 0.125;
            RETURN;
        END IF;
    END IF;
    PERFORM pgqueue_fold(p_queue, false, p_now);
    IF p_head IS NULL THEN
        PERFORM pgqueue_fold(p_queue, true, p_now) FROM pgqueue_line(p_queue, p_now) AS n WHERE n.lazy OR n.due;
    END IF;
END;
$$;
