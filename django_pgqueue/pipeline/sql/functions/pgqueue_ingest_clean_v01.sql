-- Removes stages of bulk enqueues that are not needed any more: those of p_job, those of jobs that are done, and those
-- that are older than p_stale, which a killed driver has left. Forgets jobs after a year.
-- The Spark data source calls it after each job. A call removes at most 500.
-- Returns the number of stages.
-- Locks: the tables, for a second at most each: one that a dump or a reader holds is left for the next time; the rest
--   SKIP LOCKED.
CREATE FUNCTION pgqueue_ingest_clean(p_job text DEFAULT NULL, p_stale interval DEFAULT '2 days')
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_stage bigint;
    v_count integer := 0;
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    FOR v_stage IN
        SELECT s.id FROM pgqueue_ingest_stage AS s
        WHERE s.job = p_job OR s.created_at < v_now - p_stale
            OR EXISTS (SELECT FROM pgqueue_ingest AS i WHERE i.job = s.job AND i.batch >= s.batch)
        ORDER BY s.id
        LIMIT 500
        FOR UPDATE OF s SKIP LOCKED
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE IF EXISTS pgqueue_stage_%s', v_stage);
            DELETE FROM pgqueue_ingest_stage AS s WHERE s.id = v_stage;
            v_count := v_count + 1;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;
    DELETE FROM pgqueue_ingest AS i
    WHERE i.job IN (SELECT o.job FROM pgqueue_ingest AS o
        WHERE o.ingested_at < v_now - interval '1 year' LIMIT 500 FOR UPDATE SKIP LOCKED);
    RETURN v_count;
END;
$$;
