-- Returns those of the messages whose turn it is among the messages of their order key. Sets the others aside: they
-- wait, and block no other, until the message before them is settled (pgqueue_release_keys).
-- p_ids: locked by the caller, in the order of service, of channels that are not ordered; messages without an order key
-- pass. Two dequeues may find two first messages of one key, when one was committed between their looks. So each takes
-- a lock of the key before it looks, and passes over messages whose key another transaction has locked, a dequeue or a
-- settlement: they stay ready.
-- Returns the ids in the order of p_ids.
-- Locks: pg_try_advisory_xact_lock of each key. It never waits. The callers pin the plans.
CREATE FUNCTION pgqueue_take_keyed(p_ids bigint[])
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_ids bigint[];
    v_aside bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT u.id
        FROM unnest(p_ids) WITH ORDINALITY AS u (id, place)
        -- The OFFSET looks up each message by its key.
        CROSS JOIN LATERAL (
            SELECT o.channel_id, o.order_key FROM pgqueue_message AS o WHERE o.id = u.id OFFSET 0
        ) AS m
        WHERE m.order_key IS NULL OR pg_try_advisory_xact_lock(hashtextextended(m.order_key, m.channel_id))
        ORDER BY u.place);
    -- This look sees what the transactions that held these keys before have leased and settled.
    SELECT array_agg(n.id ORDER BY n.place) FILTER (WHERE n.first), array_agg(n.id) FILTER (WHERE NOT n.first)
    INTO v_ids, v_aside
    FROM (
        SELECT u.id, u.place, m.order_key IS NULL OR u.id = (
            SELECT f.id FROM pgqueue_first_of_key(m.channel_id, m.order_key) AS f) AS first
        FROM unnest(v_ids) WITH ORDINALITY AS u (id, place)
        CROSS JOIN LATERAL (
            SELECT o.channel_id, o.order_key FROM pgqueue_message AS o WHERE o.id = u.id OFFSET 0
        ) AS m
    ) AS n;
    IF v_aside IS NOT NULL THEN
        UPDATE pgqueue_message AS m SET status = 3, waits_for = -1, promoted_for = NULL WHERE m.id = ANY (v_aside);
    END IF;
    RETURN coalesce(v_ids, '{}');
END;
$$;
