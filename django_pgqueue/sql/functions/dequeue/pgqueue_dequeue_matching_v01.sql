-- Leases ready messages of a queue that match: with this handler, one of p_handlers if p_handler is NULL, a payload
-- that contains p_payload, or both. All
-- limits hold. Each channel gets its share of p_limit first, then channels that have more messages fill the rest.
-- Runs in a transaction of its own. It looks at p_look messages at most (pgqueue_find_matching): with the index of
-- payloads at those that match, else at those that come first, so a match far behind them is not found yet.
-- Returns the columns of pgqueue_dequeue, channel after channel.
-- Locks: as pgqueue_dequeue.
-- Errors: PGQ07 invalid argument.
CREATE FUNCTION pgqueue_dequeue_matching(
    p_queue text DEFAULT 'default',
    p_limit integer DEFAULT 1,
    p_lease interval DEFAULT '15 seconds',
    p_worker text DEFAULT NULL,
    p_handler text DEFAULT NULL,
    p_payload jsonb DEFAULT NULL,
    p_look integer DEFAULT 1000,
    p_handlers text[] DEFAULT NULL
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_found record;
    v_part record;
    v_taken record;
    v_token uuid := gen_random_uuid();
    v_count integer := 0;
    v_quota integer;
    v_leased integer;
    v_left integer;
BEGIN
    IF NOT pgqueue_may_take(p_queue, p_limit, p_lease) THEN
        PERFORM pgqueue_refuse_take(p_queue, p_limit, p_lease, 'dequeue_matching');
    ELSIF p_handler IS NULL AND p_payload IS NULL AND p_handlers IS NULL THEN
        RAISE EXCEPTION 'dequeue_matching needs a handler or a payload: both are NULL'
            USING ERRCODE = 'PGQ07', HINT = 'For messages of all kinds call pgqueue_dequeue().';
    ELSIF coalesce(p_look, 0) NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'dequeue_matching looks at 1 to 100000 messages, not at %', coalesce(p_look::text, 'NULL')
            USING ERRCODE = 'PGQ07', HINT = 'Give p_look a number of this range; the default is 1000.';
    END IF;
    IF EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL) THEN
        RETURN;
    END IF;
    FOR v_try IN 0..1 LOOP
        PERFORM pgqueue_fold(p_queue, false, clock_timestamp());
        PERFORM pgqueue_fold(p_queue, true, clock_timestamp());
        SELECT array_agg(f.channel_id) AS channels, count(*) AS count, jsonb_agg(f.ids) AS ids INTO v_found
        FROM pgqueue_find_matching(
            p_queue, CASE WHEN p_handler IS NULL THEN p_handlers ELSE ARRAY[p_handler] END, p_payload, p_look) AS f;
        -- Each channel gives its share first; then channels that have more fill the rest.
        FOREACH v_quota IN ARRAY ARRAY[(p_limit - v_count + v_found.count - 1) / greatest(v_found.count, 1),
            p_limit] LOOP
            FOR v_part IN
                SELECT u.channel_id, ARRAY(SELECT e::bigint
                    FROM jsonb_array_elements_text(v_found.ids -> (u.place - 1)::integer) AS e) AS ids
                FROM unnest(v_found.channels) WITH ORDINALITY AS u (channel_id, place)
                ORDER BY u.place
            LOOP
                v_left := least(v_quota, p_limit - v_count);
                WHILE v_left > 0 LOOP
                    v_taken := pgqueue_take(p_queue, v_left, v_part.channel_id, v_part.ids);
                    EXIT WHEN coalesce(v_taken.ids, '{}') = '{}';
                    RETURN QUERY
                    SELECT l.* FROM pgqueue_lease(v_taken.ids, v_taken.taken_at, p_lease, p_worker, v_token) AS l;
                    GET DIAGNOSTICS v_leased = ROW_COUNT;
                    v_count := v_count + v_leased;
                    v_left := v_left - v_leased;
                    -- Others may stand behind those that were set aside, because a shared limit is full.
                    EXIT WHEN v_leased = cardinality(v_taken.ids);
                END LOOP;
            END LOOP;
        END LOOP;
        EXIT WHEN v_count > 0 OR pgqueue_bring_back(p_queue, p_limit, clock_timestamp(), p_worker) = 0;
    END LOOP;
END;
$$;
