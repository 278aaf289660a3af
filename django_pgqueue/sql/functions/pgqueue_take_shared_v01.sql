-- Takes messages of unlimited channels whose lanes or arrivals other transactions hold, so that one hot channel is
-- served by all workers at once, and a dequeue in an open transaction hides nothing. Each channel gives its share
-- first, then those that have more.
-- Caller: pgqueue_dequeue_held, pgqueue_take.
-- The caller's own lanes did not fill the limit. p_lane_seq, p_fresh_seq: where the line began; p_channel_id, p_among:
-- as in pgqueue_take. A lane that is held keeps its place, so the order of the line would serve the first one until it
-- is empty: hence the channels come in a random order, and one call in four begins at a random place of the line. If it
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
    v_anywhere boolean := p_channel_id IS NULL AND random() < 0.25;
    v_starts record;
    v_quota integer;
    v_ids bigint[] := '{}';
    v_seen bigint[] := '{}';
    v_new bigint[];
    v_kept bigint[];
    v_keyed boolean;
BEGIN
    IF v_anywhere THEN
        SELECT p_lane_seq + floor(random() * greatest(q.last_value - p_lane_seq, 0))::bigint,
            p_fresh_seq + floor(random() * greatest(q.last_value - p_fresh_seq, 0))::bigint
        INTO v_lane_seq, v_fresh_seq
        FROM pgqueue_lane_seq AS q;
    END IF;
    LOOP
        SELECT array_agg(o.channel_id) AS channels, array_agg(o.rank) AS ranks, array_agg(o.at) AS ats,
            array_agg(o.key) AS keys
        INTO v_starts
        FROM (
            SELECT s.* FROM pgqueue_starts(p_queue, v_lane_seq, v_fresh_seq,
                CASE WHEN p_channel_id IS NULL THEN 8 ELSE 1000 END) AS s
            JOIN pgqueue_channel AS c ON c.id = s.channel_id
            WHERE NOT pgqueue_is_limited(c) AND c.id = coalesce(p_channel_id, c.id)
            ORDER BY random()
        ) AS o;
        IF p_among IS NOT NULL THEN
            v_ids := pgqueue_take_keyed(pgqueue_lock_among(p_among, v_starts.channels, p_limit));
        END IF;
        v_quota := CASE WHEN p_among IS NULL
            THEN (p_limit + cardinality(v_starts.channels) - 1) / cardinality(v_starts.channels) END;
        WHILE cardinality(v_ids) < p_limit AND v_quota > 0 LOOP
            SELECT array_agg(n.id), bool_or(n.keyed) INTO v_new, v_keyed
            FROM (
                SELECT m.id, m.keyed
                FROM unnest(v_starts.channels, v_starts.ranks, v_starts.ats, v_starts.keys)
                    AS u (channel_id, rank, at, key)
                CROSS JOIN LATERAL (
                    SELECT m.id, m.order_key IS NOT NULL AS keyed FROM pgqueue_message AS m
                    WHERE m.channel_id = u.channel_id AND m.status = 1
                        AND (-m.priority, m.dequeue_at, m.id) >= (u.rank, u.at, u.key)
                        AND m.id <> ALL (p_except) AND m.id <> ALL (v_seen)
                    ORDER BY -m.priority, m.dequeue_at, m.id
                    LIMIT v_quota
                    FOR UPDATE SKIP LOCKED
                ) AS m
                LIMIT p_limit - cardinality(v_ids)
            ) AS n;
            v_kept := CASE WHEN v_keyed THEN pgqueue_take_keyed(v_new) ELSE v_new END;
            v_ids := v_ids || v_kept;
            v_seen := v_seen || v_new;
            -- Repeats for those that were set aside, then for the rest of the limit, if there may be more messages.
            v_quota := CASE
                WHEN v_kept <> v_new AND cardinality(v_seen) <= 1000 THEN v_quota
                WHEN v_ids <> '{}' AND v_quota < p_limit THEN p_limit
                ELSE 0
            END;
        END LOOP;
        IF v_ids <> '{}' OR NOT v_anywhere THEN
            RETURN v_ids;
        END IF;
        v_lane_seq := p_lane_seq;
        v_fresh_seq := p_fresh_seq;
        v_anywhere := false;
    END LOOP;
END;
$$;
