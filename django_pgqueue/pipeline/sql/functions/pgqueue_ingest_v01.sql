-- Enqueues the messages that the tasks of a bulk enqueue have copied: all of them, once.
-- The Spark data source calls it when all tasks have succeeded, in a transaction of its own. p_stages: the ids from
-- pgqueue_ingest_open, in the order in which their messages shall come; p_messages: how many they hold together. A
-- batch of a job is taken once, and only forward: a job that is run again, or a batch of a stream that is written
-- again, changes nothing.
-- Returns ingested (false: it was done before) and the counts of the batch, with the outcomes of pgqueue_enqueue.
-- Locks: the same job waits for itself; then as pgqueue_enqueue_many (lock order, step 1). pgqueue_ingest_clean removes
--   the stages.
-- Errors: PGQ01 stages are gone, PGQ03, PGQ04, PGQ05, PGQ06, PGQ07: raised, so that no batch is left half done.
CREATE FUNCTION pgqueue_ingest(
    p_job text,
    p_batch bigint,
    p_stages bigint[],
    p_messages bigint,
    p_create_channel boolean DEFAULT false,
    OUT ingested boolean,
    OUT created bigint,
    OUT duplicates bigint,
    OUT dropped bigint
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_stage bigint;
    v_channel record;
    v_answer record;
    v_created bigint := 0;
    v_duplicates bigint := 0;
    v_dropped bigint := 0;
BEGIN
    INSERT INTO pgqueue_ingest AS i (job, batch, created, duplicates, dropped, ingested_at)
    VALUES (p_job, p_batch, 0, 0, 0, v_now)
    ON CONFLICT (job) DO UPDATE
    SET batch = excluded.batch, ingested_at = excluded.ingested_at
    WHERE i.batch < excluded.batch;
    ingested := FOUND;
    IF NOT ingested THEN
        SELECT i.created, i.duplicates, i.dropped INTO created, duplicates, dropped FROM pgqueue_ingest AS i
        WHERE i.job = p_job;
        RETURN;
    END IF;
    IF EXISTS (
        SELECT FROM unnest(p_stages) AS u (id)
        LEFT JOIN pgqueue_ingest_stage AS s ON s.id = u.id AND s.job = p_job AND s.batch = p_batch
        WHERE s.id IS NULL)
    THEN
        RAISE EXCEPTION 'stages of job "%" are gone', p_job
            USING ERRCODE = 'PGQ01', HINT = 'They were removed as left over: run the job again. Nothing was enqueued.';
    END IF;

    -- Each channel is looked at once: unknown ones are created or refused by name. Those with a max_size are locked in
    -- the order of all enqueuers.
    FOR v_channel IN
        SELECT n.queue, n.channel, c.id, c.max_size
        FROM (SELECT DISTINCT u.queue, u.channel
            FROM unnest(p_stages) AS s (id), pgqueue_ingest_channels(s.id) AS u) AS n
        LEFT JOIN pgqueue_channel AS c ON c.queue = n.queue AND c.name = n.channel
        ORDER BY c.id, n.queue, n.channel
    LOOP
        IF v_channel.id IS NULL THEN
            PERFORM pgqueue_raise(m.refusal)
            FROM pgqueue_missing_channel(v_channel.queue, v_channel.channel, p_create_channel) AS m;
        ELSIF v_channel.max_size IS NOT NULL THEN
            PERFORM pgqueue_raise(r.refusal) FROM pgqueue_reserve(v_channel.id, v_channel.max_size, 0) AS r;
        END IF;
    END LOOP;

    FOREACH v_stage IN ARRAY p_stages LOOP
        v_answer := pgqueue_ingest_insert(v_stage, v_now);
        v_created := v_created + v_answer.created;
        v_duplicates := v_duplicates + v_answer.duplicates;
        v_dropped := v_dropped + v_answer.dropped;
    END LOOP;
    -- A server that crashed meanwhile has emptied its unlogged tables.
    IF v_created + v_duplicates + v_dropped <> p_messages THEN
        RAISE EXCEPTION 'the stages of job "%" hold % messages, not %', p_job, v_created + v_duplicates + v_dropped,
            p_messages
            USING ERRCODE = 'PGQ01',
            HINT = 'The server was restarted after a crash: run the job again. Nothing was enqueued.';
    END IF;
    UPDATE pgqueue_ingest AS i
    SET created = v_created, duplicates = v_duplicates, dropped = v_dropped
    WHERE i.job = p_job
    RETURNING i.created, i.duplicates, i.dropped INTO created, duplicates, dropped;
END;
$$;
