-- Creates a shared limit, or changes the settings that p_settings names. Messages of any channel and queue may have it.
-- p_settings: {"max_concurrency", "max_cost", "release_interval", "release_burst"}, null lifts a limit; max_cost bounds
-- the sum of the costs of its leased messages; "handlers": the names of handlers, all of whose messages have it;
-- "forgive": true ends the debt of its rate; "per": "channel" makes it one for each channel, null one for all. Then all
-- of the other settings, and a pause, are those of each channel, and forgive is for all of them.
-- Messages of new handlers that are leased already count, also those that are being leased at this moment
-- (pgqueue_count_older); those of handlers that are left out go on without it.
-- Returns the limit's id and created or changed; or the refusal PGQ07. The change holds from the next lease on.
-- Locks: the limit's own row, then pg_advisory_xact_lock of it; messages that wait for it and have it no more, SKIP
--   LOCKED. With new handlers or another per also the rows that channels have of it.
CREATE FUNCTION pgqueue_limit_set(
    p_name text,
    p_settings jsonb DEFAULT '{}',
    OUT id bigint,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    v_problem text := CASE
        WHEN coalesce(p_name, '') = '' OR length(p_name) > 200 THEN 'its name takes 1 to 200 characters'
        WHEN EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.name = p_name AND l.breaker_failures IS NOT NULL) THEN
            'it is a breaker (pgqueue_breaker_set)'
        WHEN p_name ~ '^limit [0-9]+, channel [0-9]+$' THEN 'names like this are of the limits of single channels'
        ELSE pgqueue_settings_problem('limit', p_settings)
    END;
    v_freed bigint[];
    v_ids bigint[];
    v_limit pgqueue_limit;
    v_handlers text[] := ARRAY(
        SELECT jsonb_array_elements_text(p_settings -> 'handlers')
        WHERE jsonb_typeof(p_settings -> 'handlers') = 'array');
BEGIN
    IF v_problem IS NOT NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid limit: ' || v_problem);
        outcome := refusal ->> 'outcome';
        RETURN;
    END IF;
    INSERT INTO pgqueue_limit (name, max_concurrency, max_cost, release_interval, release_burst, per)
    VALUES (
        p_name, (p_settings ->> 'max_concurrency')::numeric, (p_settings ->> 'max_cost')::numeric,
        (p_settings ->> 'release_interval')::interval, coalesce((p_settings ->> 'release_burst')::numeric, 1),
        p_settings ->> 'per')
    ON CONFLICT (name) DO NOTHING
    RETURNING pgqueue_limit.id INTO id;
    outcome := CASE WHEN FOUND THEN 'created' ELSE 'changed' END;
    IF outcome = 'changed' THEN
        IF p_settings ? 'per' THEN
            -- It changes nothing: it locks the row, as each edit does, and returns what was there before.
            UPDATE pgqueue_limit AS l SET name = p_name WHERE l.name = p_name RETURNING l.* INTO v_limit;
        END IF;
        UPDATE pgqueue_limit AS l
        SET max_concurrency = CASE WHEN p_settings ? 'max_concurrency'
                THEN (p_settings ->> 'max_concurrency')::numeric ELSE l.max_concurrency END,
            max_cost = CASE WHEN p_settings ? 'max_cost' THEN (p_settings ->> 'max_cost')::numeric
                ELSE l.max_cost END,
            release_interval = CASE WHEN p_settings ? 'release_interval'
                THEN (p_settings ->> 'release_interval')::interval ELSE l.release_interval END,
            release_burst = coalesce((p_settings ->> 'release_burst')::numeric, l.release_burst),
            per = CASE WHEN p_settings ? 'per' THEN p_settings ->> 'per' ELSE l.per END
        WHERE l.name = p_name
        RETURNING l.id INTO id;
        -- Waits for those that passed beside (pgqueue_hold_side), and have not locked the row.
        PERFORM pg_advisory_xact_lock(hashint8extended(id, 7220));
        IF p_settings ? 'per' AND v_limit.per IS DISTINCT FROM p_settings ->> 'per' THEN
            -- Begins anew with what is leased: the places were those of other rows.
            WITH gone AS (
                DELETE FROM pgqueue_limit AS l WHERE l.parent_id = v_limit.id RETURNING l.id
            )
            SELECT array_agg(g.id) INTO v_ids FROM gone AS g;
            PERFORM pgqueue_forget_limits(v_limit.id || v_ids), pgqueue_place_leases(ARRAY[v_limit.id]);
        END IF;
    END IF;
    PERFORM pgqueue_forgive(p_limit_id => l.id) FROM pgqueue_limit AS l
    WHERE p_settings -> 'forgive' = 'true' AND pgqueue_limit_set.id IN (l.id, l.parent_id);
    IF p_settings ? 'handlers' THEN
        -- The rows of its channels change with it. This locks them.
        WITH locked AS (
            UPDATE pgqueue_limit AS l SET parent_id = l.parent_id WHERE l.parent_id = pgqueue_limit_set.id
            RETURNING l.id
        )
        SELECT pgqueue_limit_set.id || array_agg(o.id) INTO v_ids FROM locked AS o;
        DELETE FROM pgqueue_limit_handler AS h WHERE h.limit_id = id AND h.handler <> ALL (v_handlers);
        IF FOUND THEN
            -- Those that wait for it and have it no more would wait as long as it is full, or paused.
            WITH freed AS (
                UPDATE pgqueue_message AS m
                SET status = CASE WHEN m.dequeue_at > clock_timestamp() THEN 3 ELSE 1 END, waits_for = NULL
                WHERE m.id = ANY (ARRAY(
                    SELECT w.id FROM pgqueue_message AS w
                    WHERE w.waits_for = ANY (v_ids) AND w.handler <> ALL (v_handlers)
                        AND pgqueue_limit_set.id <> ALL (coalesce(w.limits, '{}'))
                    FOR UPDATE SKIP LOCKED))
                RETURNING m.id
            )
            SELECT array_agg(f.id) INTO v_freed FROM freed AS f;
            PERFORM pgqueue_announce(v_freed), pgqueue_unpark_ordered(v_freed) WHERE v_freed IS NOT NULL;
        END IF;
        INSERT INTO pgqueue_limit_handler (handler, limit_id) SELECT DISTINCT h, id FROM unnest(v_handlers) AS h
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            -- Dequeues that are under way do not know it: the next one that asks the limit looks for them.
            INSERT INTO pgqueue_meter (limit_id, awaited) SELECT u, '{}' FROM unnest(v_ids) AS u
            ON CONFLICT (limit_id) DO UPDATE SET awaited = excluded.awaited;
        END IF;
        PERFORM pgqueue_place_leases(v_ids);
    END IF;
END;
$$;
