-- Takes messages of unlimited channels whose lanes or arrivals other transactions hold, so that one hot channel is
-- served by all workers at once, and a dequeue in an open transaction hides nothing. Each channel gives its share
-- first, then those that have more.
-- The caller's own lanes did not fill the limit. p_lane_seq, p_fresh_seq: where the line began; p_channel_id, p_among:
-- as in pgqueue_take. A lane that is held keeps its place, so the order of the line would serve the first one until it
-- is empty: hence the channels come in a random order by weight, and one call in four begins at a random place of the line. If it
-- finds nothing from there, it begins once more where the line began.
-- Returns the locked ids, none of p_except.
-- Locks: messages, SKIP LOCKED. Lanes and arrivals are only read: their holders move them.
CREATE FUNCTION pgqueue_take_shared(
    p_queue text, p_limit integer, p_lane_seq bigint, p_fresh_seq bigint, p_except bigint[], p_channel_id bigint,
    p_among bigint[]
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_lane_seq bigint := p_lane_seq;
    v_fresh_seq bigint := p_fresh_seq;
    v_lanes integer := CASE WHEN p_channel_id IS NULL THEN 8 ELSE 1000 END;
    v_anywhere boolean := p_channel_id IS NULL AND random() < 0.25;
    v_rest boolean := false;
    v_ids bigint[] := '{}';
    v_seen bigint[] := '{}';
    v_new bigint[];
    v_kept bigint[];
    v_keyed boolean;
    v_more boolean;
BEGIN
    IF p_among IS NOT NULL THEN
        RETURN pgqueue_take_keyed(pgqueue_lock_among(p_among, ARRAY(
            SELECT s.channel_id FROM pgqueue_starts(p_queue, p_lane_seq, p_fresh_seq, v_lanes) AS s
            JOIN pgqueue_channel AS c ON c.id = s.channel_id
            WHERE NOT pgqueue_is_limited(c) AND c.id = coalesce(p_channel_id, c.id)), p_limit));
    ELSIF v_anywhere THEN
        SELECT p_lane_seq + floor(random() * greatest(q.last_value - p_lane_seq, 0))::bigint,
            p_fresh_seq + floor(random() * greatest(q.last_value - p_fresh_seq, 0))::bigint
        INTO v_lane_seq, v_fresh_seq
        FROM pgqueue_lane_seq AS q;
    END IF;
    LOOP
        SELECT array_agg(n.id), bool_or(n.keyed), bool_or(n.quota < p_limit) INTO v_new, v_keyed, v_more
        FROM (
            SELECT m.id, m.keyed, u.quota
            FROM (
                SELECT s.channel_id, s.rank, s.at, s.key,
                    CASE WHEN v_rest THEN p_limit
                        ELSE ceil(p_limit::numeric * c.weight / sum(c.weight) OVER ())::integer END AS quota
                FROM pgqueue_starts(p_queue, v_lane_seq, v_fresh_seq, v_lanes) AS s
                JOIN pgqueue_channel AS c ON c.id = s.channel_id
                WHERE NOT pgqueue_is_limited(c) AND c.id = coalesce(p_channel_id, c.id)
                -- A random order by weight. Source: P. Efraimidis, P. Spirakis, "Weighted random sampling with a
                -- reservoir", 2006.
                ORDER BY ln(1 - random()) / c.weight DESC
            ) AS u
            CROSS JOIN LATERAL (
                SELECT m.id, m.order_key IS NOT NULL AS keyed FROM pgqueue_message AS m
                WHERE m.channel_id = u.channel_id AND m.status = 1
                    AND (-m.priority, m.dequeue_at, m.id) >= (u.rank, u.at, u.key)
                    AND m.id <> ALL (p_except) AND m.id <> ALL (v_seen)
                ORDER BY -m.priority, m.dequeue_at, m.id
                LIMIT u.quota
                FOR UPDATE SKIP LOCKED
            ) AS m
            LIMIT p_limit - cardinality(v_ids)
        ) AS n;
        v_kept := CASE WHEN v_keyed THEN pgqueue_take_keyed(v_new) ELSE v_new END;
        v_ids := v_ids || v_kept;
        v_seen := v_seen || v_new;
        -- Repeats for those that were set aside, then for the rest of the limit, if there may be more messages, and
        -- without any from where the line began.
        IF cardinality(v_ids) = p_limit THEN
            RETURN v_ids;
        ELSIF v_kept <> v_new AND cardinality(v_seen) <= 1000 THEN
            CONTINUE;
        ELSIF v_ids <> '{}' AND v_more THEN
            v_rest := true;
        ELSIF v_ids = '{}' AND v_anywhere THEN
            v_lane_seq := p_lane_seq;
            v_fresh_seq := p_fresh_seq;
            v_anywhere := false;
        ELSE
            RETURN v_ids;
        END IF;
    END LOOP;
END;
$$;
