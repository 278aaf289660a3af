-- Makes the table that a task of a bulk enqueue copies its messages into. It is unlogged, and belongs to this attempt
-- alone, so that a task that is retried or runs twice leaves no counted rows behind.
-- The Spark data source calls it in the transaction of its COPY. p_defaults: values of columns that are not copied.
-- Returns the id of the table pgqueue_stage_<id>, or NULL when the job has done this batch before: there is nothing to
--   copy.
-- Locks: none.
-- Errors: PGQ07 invalid job.
CREATE FUNCTION pgqueue_ingest_open(p_job text, p_batch bigint DEFAULT 0, p_defaults jsonb DEFAULT '{}')
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    -- The caller: within this function current_user is its owner.
    v_caller text := coalesce(nullif(current_setting('role'), 'none'), session_user);
    v_id bigint;
    v_default record;
BEGIN
    IF coalesce(p_job, '') = '' OR length(p_job) > 200 OR p_batch IS NULL THEN
        RAISE EXCEPTION 'the id of a job takes 1 to 200 characters' USING ERRCODE = 'PGQ07';
    END IF;
    IF EXISTS (SELECT FROM pgqueue_ingest AS i WHERE i.job = p_job AND i.batch >= p_batch) THEN
        RETURN NULL;
    END IF;
    INSERT INTO pgqueue_ingest_stage (job, batch, created_at) VALUES (p_job, p_batch, clock_timestamp())
    RETURNING id INTO v_id;
    -- The user reads the names of the constraints as error messages.
    EXECUTE format(
        'CREATE UNLOGGED TABLE pgqueue_stage_%s (
            queue text
                CONSTRAINT "the name of the queue takes 1 to 100 characters" CHECK (length(queue) BETWEEN 1 AND 100),
            channel text
                CONSTRAINT "the name of the channel takes 1 to 200 characters"
                    CHECK (length(channel) BETWEEN 1 AND 200),
            handler text NOT NULL
                CONSTRAINT "the name of the handler takes 1 to 200 characters"
                    CHECK (length(handler) BETWEEN 1 AND 200),
            payload jsonb,
            body bytea,
            headers jsonb
                CONSTRAINT "the headers are not a JSON object" CHECK (jsonb_typeof(headers) IN (''object'', ''null'')),
            priority integer
                CONSTRAINT "the priority is not between -32767 and 32767" CHECK (priority BETWEEN -32767 AND 32767),
            dequeue_at timestamptz
                CONSTRAINT "dequeue_at is outside of the years 2 to 9998"
                CHECK (dequeue_at >= ''0002-01-01 00:00+00'' AND dequeue_at < ''9999-01-01 00:00+00''),
            delay interval
                CONSTRAINT "delay is longer than 365000 days"
                    CHECK (delay BETWEEN ''-365000 days'' AND ''365000 days''),
            max_attempts integer CONSTRAINT "max_attempts is less than 1" CHECK (max_attempts >= 1),
            backoff interval
                CONSTRAINT "backoff is not between 0 and 365000 days" CHECK (backoff BETWEEN ''0'' AND ''365000 days''),
            backoff_factor double precision
                CONSTRAINT "backoff_factor is not between 1 and 1000" CHECK (backoff_factor BETWEEN 1 AND 1000),
            backoff_longest interval
                CONSTRAINT "backoff_longest is not between 0 and 365000 days"
                CHECK (backoff_longest BETWEEN ''0'' AND ''365000 days''),
            dedupe_key text
                CONSTRAINT "the dedupe key is longer than 200 characters" CHECK (length(dedupe_key) <= 200),
            order_key text
                CONSTRAINT "the order key takes 1 to 200 characters" CHECK (length(order_key) BETWEEN 1 AND 200),
            cost integer CONSTRAINT "cost is less than 1" CHECK (cost >= 1),
            limits jsonb
                CONSTRAINT "limits is not an array of names"
                CHECK (limits = ''null'' OR jsonb_typeof(limits) = ''array''
                    AND NOT limits @? ''$[*] ? (@.type() != "string")''),
            CONSTRAINT "both dequeue_at and delay are given: give one" CHECK (dequeue_at IS NULL OR delay IS NULL),
            CONSTRAINT "payload, body and headers together take more than 64 MB"
                CHECK (coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(body), 0)
                    + coalesce(pg_column_size(headers), 0) <= 67108864)
        ) WITH (autovacuum_enabled = false)', v_id);
    FOR v_default IN SELECT d.key, d.value FROM jsonb_each_text(p_defaults) AS d LOOP
        EXECUTE format('ALTER TABLE pgqueue_stage_%s ALTER COLUMN %I SET DEFAULT %L', v_id, v_default.key,
            v_default.value);
    END LOOP;
    IF v_caller <> current_user THEN
        EXECUTE format('GRANT INSERT ON pgqueue_stage_%s TO %I', v_id, v_caller);
    END IF;
    RETURN v_id;
END;
$$;
