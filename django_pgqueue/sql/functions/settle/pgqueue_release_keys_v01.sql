-- Makes the next message of each order key ready, if it waits for its turn, because one of its key was settled.
-- p_keys: channels and keys. p_settled: the caller has deleted messages of them in the same transaction. Until it
-- commits, a dequeue would still see these, and set messages aside that have come since. So the settlement holds its
-- keys, as a dequeue does (pgqueue_take_keyed). It leaves a note for a key that is held already, or whose next message
-- is: that may be a dequeue that sets a message aside at this moment, which must not wait for ever
-- (pgqueue_release_noted). A message with shared limits goes on to wait for them.
-- Returns the number of messages that were made ready.
-- Locks: pg_try_advisory_xact_lock of 100 keys at most; the next message of each key, SKIP LOCKED.
CREATE FUNCTION pgqueue_release_keys(p_keys pgqueue_order_note[], p_settled boolean)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    -- A snapshot of the past shows neither what came since nor what was set aside.
    v_stale boolean := current_setting('transaction_isolation') <> 'read committed';
    v_next record;
    v_held bigint[];
    v_released bigint[];
BEGIN
    IF p_settled THEN
        INSERT INTO pgqueue_order_note (channel_id, order_key)
        SELECT k.channel_id, k.order_key
        FROM (
            SELECT d.channel_id, d.order_key, row_number() OVER () AS place
            FROM (SELECT DISTINCT u.channel_id, u.order_key FROM unnest(p_keys) AS u) AS d
        ) AS k
        WHERE CASE
            WHEN v_stale OR k.place > 100 THEN true
            ELSE NOT pg_try_advisory_xact_lock(hashtextextended(k.order_key, k.channel_id))
        END;
        IF v_stale THEN
            RETURN 0;
        END IF;
    END IF;
    -- A leased message releases the next one at its own settlement.
    SELECT array_agg(f.id) AS ids, array_agg(k.channel_id) AS channel_ids, array_agg(k.order_key) AS keys INTO v_next
    FROM (SELECT DISTINCT u.channel_id, u.order_key FROM unnest(p_keys) AS u) AS k
    CROSS JOIN LATERAL pgqueue_first_of_key(k.channel_id, k.order_key) AS f
    WHERE f.status <> 2;
    IF v_next.ids IS NULL THEN
        RETURN 0;
    END IF;
    v_held := ARRAY(
        SELECT m.id FROM pgqueue_message AS m WHERE m.id = ANY (v_next.ids) ORDER BY m.id FOR UPDATE SKIP LOCKED);
    INSERT INTO pgqueue_order_note (channel_id, order_key)
    SELECT u.channel_id, u.key
    FROM unnest(v_next.ids, v_next.channel_ids, v_next.keys) AS u (id, channel_id, key)
    WHERE u.id <> ALL (v_held);
    -- Only now it is known whether they wait: the locks have shown their newest versions.
    WITH released AS (
        UPDATE pgqueue_message AS m
        SET waits_for = w.waits_for, status = CASE WHEN w.waits_for IS NULL AND m.dequeue_at <= v_now THEN 1 ELSE 3 END
        FROM (
            SELECT o.id, CASE WHEN o.limits IS NOT NULL AND o.dequeue_at <= v_now THEN
                pgqueue_waits_for(o.channel_id, o.limits) END AS waits_for
            FROM pgqueue_message AS o WHERE o.id = ANY (v_held) AND o.waits_for = -1
        ) AS w
        WHERE m.id = w.id AND m.id = ANY (v_held)
        RETURNING m.id
    )
    SELECT array_agg(r.id) INTO v_released FROM released AS r;
    IF v_released IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM pgqueue_announce(v_released);
    IF EXISTS (SELECT FROM pgqueue_limit) THEN
        PERFORM pgqueue_wake_waiting();
    END IF;
    RETURN cardinality(v_released);
END;
$$;
