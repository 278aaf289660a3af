-- Deletes what the pipeline keeps in the database of channels: metrics, streams and messages that a bulk enqueue
-- has staged; or counts it.
-- p_channels: names. The claims of a stream go with it: a query that still reads it fails.
-- Returns the number of rows by table.
-- Locks: the rows; a stage that is being dropped is left out.
CREATE FUNCTION pgqueue_erase_pipeline(p_queue text, p_channels text[], p_dry_run boolean)
RETURNS jsonb
LANGUAGE plpgsql
AS $$
DECLARE
    v_table text;
    v_stage bigint;
    v_staged bigint := 0;
    v_streams text[];
    v_removed jsonb := '{}';
BEGIN
    v_streams := ARRAY(SELECT s.name FROM pgqueue_stream AS s WHERE s.queue = p_queue AND s.channel = ANY (p_channels));
    IF NOT p_dry_run THEN
        DELETE FROM pgqueue_stream_claim AS c WHERE c.stream = ANY (v_streams);
    END IF;
    FOREACH v_table IN ARRAY ARRAY['queue_metric', 'stream'] LOOP
        v_removed := v_removed || jsonb_build_object(v_table,
            pgqueue_erase_rows(('pgqueue_' || v_table)::regclass, p_queue, p_channels, p_dry_run));
    END LOOP;
    FOR v_stage IN SELECT s.id FROM pgqueue_ingest_stage AS s ORDER BY s.id LOOP
        BEGIN
            v_staged := v_staged
                + pgqueue_erase_rows(('pgqueue_stage_' || v_stage)::regclass, p_queue, p_channels, p_dry_run);
        EXCEPTION WHEN undefined_table THEN
            CONTINUE;
        END;
    END LOOP;
    RETURN v_removed || jsonb_build_object('stage', v_staged);
END;
$$;
