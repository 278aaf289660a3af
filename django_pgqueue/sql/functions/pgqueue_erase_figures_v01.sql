-- Deletes the figures and the schedules of channels, then releases those channels that hold no message; or counts them.
-- The caller has the advisory locks of prune and measure: no other transaction writes these figures meanwhile.
-- p_channels: names. The ticks of a schedule go with it.
-- Returns the number of rows by table.
-- Locks: schedules and their ticks, SKIP LOCKED; the rows of the channels.
CREATE FUNCTION pgqueue_erase_figures(p_queue text, p_channels text[], p_channel_ids bigint[], p_dry_run boolean)
RETURNS jsonb
LANGUAGE plpgsql
AS $$
DECLARE
    v_table text;
    v_schedules text[];
    v_ticks bigint[];
    v_removed jsonb := '{}';
    v_pipeline jsonb := '{}';
BEGIN
    FOREACH v_table IN ARRAY ARRAY['activity', 'backlog', 'tally', 'unarchived', 'unarchived_total'] LOOP
        v_removed := v_removed || jsonb_build_object(v_table,
            pgqueue_erase_rows(('pgqueue_' || v_table)::regclass, p_queue, p_channels, p_dry_run));
    END LOOP;
    IF to_regproc('pgqueue_erase_pipeline') IS NOT NULL THEN
        v_pipeline := pgqueue_erase_pipeline(p_queue, p_channels, p_dry_run);
    END IF;
    v_schedules := ARRAY(SELECT s.name FROM pgqueue_schedule AS s
        WHERE s.queue = p_queue AND s.channel = ANY (p_channels) FOR UPDATE SKIP LOCKED);
    v_ticks := ARRAY(SELECT t.id FROM pgqueue_schedule_tick AS t
        WHERE t.schedule = ANY (v_schedules) FOR UPDATE SKIP LOCKED);
    v_removed := v_removed || v_pipeline || jsonb_build_object('schedule', cardinality(v_schedules),
        'schedule_tick', cardinality(v_ticks), 'channel', cardinality(p_channel_ids));
    IF NOT p_dry_run THEN
        DELETE FROM pgqueue_unique_key AS k WHERE k.channel_id = ANY (p_channel_ids);
        DELETE FROM pgqueue_schedule AS s WHERE s.name = ANY (v_schedules);
        DELETE FROM pgqueue_schedule_tick AS t WHERE t.id = ANY (v_ticks);
        UPDATE pgqueue_channel AS c
        SET released_at = clock_timestamp()
        WHERE c.id = ANY (p_channel_ids) AND c.released_at IS NULL AND pgqueue_count_live(c.id) = 0;
    END IF;
    RETURN v_removed;
END;
$$;
