-- Settles the batches of a stream up to p_after, which its query has committed, and leases the messages of the next
-- batch.
-- The Spark data source calls it in a transaction of its own. p_lease: how long the messages stay with the stream,
-- unless it extends the lease. p_limit 0 claims nothing new. A batch that was claimed and not settled is claimed again
-- as it was: the same number, the same messages without those whose lease is lost.
-- Returns the number of the batch, or p_after when there is nothing to do; its messages; how many were settled, how
--   many could not be; contended: nothing was claimed, because another transaction holds the messages: claim again
--   soon.
-- Locks: the stream's row (lock order, before step 1), then as pgqueue_complete, then as pgqueue_dequeue.
-- Errors: PGQ02 another query has taken the stream over, PGQ03, PGQ07.
CREATE FUNCTION pgqueue_stream_claim(
    p_name text,
    p_owner uuid,
    p_after bigint,
    p_limit integer DEFAULT 10000,
    p_lease interval DEFAULT '10 minutes',
    p_worker text DEFAULT NULL,
    OUT batch bigint,
    OUT messages integer,
    OUT settled integer,
    OUT lost integer,
    OUT contended boolean
)
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
    v_stream pgqueue_stream;
    v_taken record;
    v_token uuid := gen_random_uuid();
    v_channel_id bigint;
    v_try integer := 0;
    v_leased integer;
    v_until timestamptz := clock_timestamp() + interval '25 milliseconds';
BEGIN
    IF coalesce(p_limit, -1) < 0 OR coalesce(p_lease, '0') <= '0'
        OR current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM pgqueue_refuse_take(p_name, p_limit, p_lease, 'stream_claim');
    END IF;
    UPDATE pgqueue_stream AS s SET claimed_at = clock_timestamp()
    WHERE s.name = p_name AND s.owner = p_owner
    RETURNING s.* INTO v_stream;
    IF NOT FOUND THEN
        PERFORM pgqueue_stream_lost(p_name);
    ELSIF p_after < v_stream.settled THEN
        RAISE EXCEPTION 'stream "%" has settled batch %, its checkpoint ends at batch %', p_name, v_stream.settled,
            p_after
            USING ERRCODE = 'PGQ07',
            HINT = 'The checkpoint is older than the queue, or is another query''s. Start with a new checkpoint.';
    END IF;
    contended := false;
    SELECT e.settled, e.lost INTO settled, lost FROM pgqueue_stream_settle(p_name, p_owner, p_after) AS e;

    SELECT max(c.batch) INTO batch FROM pgqueue_stream_claim AS c WHERE c.stream = p_name AND c.batch > p_after;
    IF batch IS NOT NULL THEN
        SELECT e.held INTO messages FROM pgqueue_stream_extend(p_name, p_owner, p_lease) AS e;
        IF messages > 0 THEN
            RETURN;
        END IF;
    END IF;
    IF v_stream.channel IS NOT NULL THEN
        SELECT c.id INTO v_channel_id FROM pgqueue_channel AS c
        WHERE c.queue = v_stream.queue AND c.name = v_stream.channel;
        IF NOT FOUND THEN
            PERFORM pgqueue_raise(m.refusal) FROM pgqueue_missing_channel(v_stream.queue, v_stream.channel, false) AS m;
        END IF;
    END IF;
    batch := p_after;
    messages := 0;
    WHILE messages < p_limit LOOP
        v_taken := pgqueue_take(v_stream.queue, least(p_limit - messages, 10000), v_channel_id);
        IF v_taken.ids <> '{}' THEN
            INSERT INTO pgqueue_stream_claim (stream, batch, message_id, token)
            SELECT p_name, p_after + 1, l.id, v_token
            FROM pgqueue_lease(v_taken.ids, v_taken.taken_at, p_lease, p_worker, v_token) AS l;
            GET DIAGNOSTICS v_leased = ROW_COUNT;
            batch := CASE WHEN v_leased > 0 THEN p_after + 1 ELSE batch END;
            messages := messages + v_leased;
            -- Others were set aside, because a shared limit is full: one call must not hold locks for long.
            contended := messages = 0 AND clock_timestamp() > v_until;
            EXIT WHEN v_leased < cardinality(v_taken.ids) AND clock_timestamp() > v_until;
        ELSE
            contended := v_taken.contended AND messages = 0;
            EXIT WHEN messages > 0 OR v_try = 5;
            -- A contended claim is repeated once: the arrivals that were folded last stand in the line only now.
            EXIT WHEN NOT (contended AND v_try = 0)
                AND pgqueue_bring_back(v_stream.queue, 1000, v_taken.taken_at, p_worker) = 0;
            v_try := v_try + 1;
        END IF;
    END LOOP;
END;
$$;
