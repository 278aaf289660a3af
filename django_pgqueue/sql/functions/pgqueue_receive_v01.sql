-- Receives the arrivals of a queue that cannot wait: takes the message of a lone arrival, or else folds them all.
-- Caller: pgqueue_dequeue.
-- An arrival is lone if it is the only one, nothing stands in the line, and it leads to one message. To fold it would
-- write the lane of its channel twice, only to park it again. Most messages of a queue with little to do are such ones.
-- A lone arrival goes without the lock of the lane: one snapshot shows it and all ready messages that it leads to,
-- because they were committed together, and this call takes the only one. So nothing is left that needs the arrival.
-- Channels with limits and messages with an order key need their lane.
-- p_arrival_xid to p_fresh_head: as pgqueue_line returned them; p_now: the caller's reading of the clock.
-- Returns id: the message of a lone arrival, locked, or NULL; name, context: of its channel; place: NULL, because no
--   lane is locked; looks: true once in eight times: the caller folds the arrivals that can wait.
-- Locks: an arrival and a message, SKIP LOCKED; and as pgqueue_fold.
CREATE FUNCTION pgqueue_receive(
    p_queue text, p_now timestamptz, p_arrival_xid xid8, p_late_xids xid8[], p_head bigint, p_fresh_head bigint,
    OUT id bigint, OUT name varchar, OUT context jsonb, OUT place tid, OUT looks boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_arrival tid;
BEGIN
    IF p_head IS NULL AND p_fresh_head IS NULL
        AND (p_late_xids = '{}' OR NOT EXISTS (SELECT FROM pgqueue_late_arrivals(p_queue, p_late_xids))) THEN
        SELECT a.place, m.id, c.name, c.context INTO v_arrival, id, name, context
        FROM (
            SELECT n.ctid AS place, n.* FROM pgqueue_arrival AS n
            WHERE n.queue = p_queue AND NOT n.lazy AND n.xid >= p_arrival_xid AND n.spent IS NULL AND NOT EXISTS (
                SELECT FROM pgqueue_arrival AS o
                WHERE o.queue = p_queue AND o.lazy = ANY ('{f,t}') AND o.xid >= p_arrival_xid AND o.ctid <> n.ctid)
            ORDER BY n.xid LIMIT 1 FOR UPDATE SKIP LOCKED
        ) AS a
        JOIN pgqueue_channel AS c ON c.id = a.channel_id AND NOT pgqueue_is_limited(c)
        CROSS JOIN LATERAL (
            SELECT min(o.id) AS id, count(*) AS messages FROM (
                SELECT n.id FROM pgqueue_message AS n
                WHERE n.channel_id = a.channel_id AND n.status = 1
                    AND (-n.priority, n.dequeue_at, n.id) >= (a.floor_rank, a.floor_at, a.floor_id)
                ORDER BY -n.priority, n.dequeue_at, n.id LIMIT 2
            ) AS o
        ) AS o
        CROSS JOIN LATERAL (
            SELECT n.id FROM pgqueue_message AS n
            WHERE n.id = o.id AND o.messages = 1 AND n.status = 1 AND n.order_key IS NULL FOR UPDATE SKIP LOCKED
        ) AS m;
        IF FOUND THEN
            DELETE FROM pgqueue_arrival AS a WHERE a.ctid = v_arrival;
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
