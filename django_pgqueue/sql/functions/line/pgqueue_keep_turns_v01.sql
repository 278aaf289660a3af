-- Gives channels back the part of their turns that they lost because messages were set aside: they are served before
-- the others.
-- p_ids: the messages that the call took; those that are not leased were set aside. The callers limit how often a call
-- does this, because a channel with many such messages must not keep the others waiting. The settings of
-- pgqueue_dequeue pin the plans.
-- Locks: lanes, SKIP LOCKED. This transaction has locked most of them before; those of messages that it took beside
-- another dequeue are left to that one.
CREATE FUNCTION pgqueue_keep_turns(p_ids bigint[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE pgqueue_lane AS l
    -- A lane whose turn was over has served 0 of the next one.
    SET seq = nextval('pgqueue_lane_seq'), fresh = true,
        served = greatest(
            CASE WHEN l.served > 0 THEN l.served ELSE pgqueue_turn(l.round, n.weight) END - n.messages, 0)
    FROM (
        SELECT t.weight, t.messages, (pgqueue_lock_lane(t.channel_id)).place
        FROM (
            SELECT m.channel_id, c.weight, count(*) AS messages
            FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
            WHERE m.id = ANY (p_ids) AND m.status <> 2
            GROUP BY m.channel_id, c.weight
        ) AS t
    ) AS n
    WHERE l.ctid = n.place AND l.parked_until IS NULL;
END;
$$;
