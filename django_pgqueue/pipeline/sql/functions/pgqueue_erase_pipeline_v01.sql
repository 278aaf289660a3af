-- Deletes what the pipeline keeps in the database of channels: metrics, and messages that a bulk enqueue has staged;
-- or counts it.
-- p_channels: names.
-- Returns the number of rows by table.
-- Locks: the rows; a stage that is being dropped is left out.
CREATE FUNCTION pgqueue_erase_pipeline(p_queue text, p_channels text[], p_dry_run boolean)
RETURNS jsonb
LANGUAGE plpgsql
AS $$
DECLARE
    v_stage bigint;
    v_staged bigint := 0;
BEGIN
    FOR v_stage IN SELECT s.id FROM pgqueue_ingest_stage AS s ORDER BY s.id LOOP
        BEGIN
            v_staged := v_staged
                + pgqueue_erase_rows(('pgqueue_stage_' || v_stage)::regclass, p_queue, p_channels, p_dry_run);
        EXCEPTION WHEN undefined_table THEN
            CONTINUE;
        END;
    END LOOP;
    RETURN jsonb_build_object('stage', v_staged, 'queue_metric',
        pgqueue_erase_rows('pgqueue_queue_metric', p_queue, p_channels, p_dry_run));
END;
$$;
