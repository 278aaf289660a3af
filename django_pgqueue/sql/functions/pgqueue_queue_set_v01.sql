-- Changes the settings of a whole queue that p_settings names.
-- Caller: lifecycle.queue_set.
-- p_settings: {"archive": "full" | "outcome" | "none", "events": true | false}; null: as in a queue without a row,
-- which is full and false.
-- Returns changed; or the refusal PGQ03, when the queue has neither a channel nor a row, or PGQ07 invalid setting.
-- Locks: the queue's row.
CREATE FUNCTION pgqueue_queue_set(p_queue text, p_settings jsonb DEFAULT '{}', OUT outcome text, OUT refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_problem text;
BEGIN
    v_problem := CASE
        WHEN jsonb_typeof(p_settings) IS DISTINCT FROM 'object' THEN 'the settings are not a JSON object'
        WHEN p_settings - ARRAY['archive', 'events'] <> '{}' THEN
            format('unknown settings %s; known are archive and events',
                left((p_settings - ARRAY['archive', 'events'])::text, 100))
        WHEN coalesce(p_settings -> 'events', 'null') NOT IN ('true', 'false', 'null') THEN
            format('events is %s: it takes true or false', left(p_settings ->> 'events', 100))
        ELSE pgqueue_archive_problem(p_settings ->> 'archive')
    END;
    IF v_problem IS NOT NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid queue: ' || v_problem);
    ELSE
        refusal := pgqueue_missing_queue(p_queue);
    END IF;
    IF refusal IS NULL THEN
        INSERT INTO pgqueue_queue AS q (name, archive, events)
        VALUES (p_queue, coalesce(p_settings ->> 'archive', 'full'),
            coalesce((p_settings ->> 'events')::boolean, false))
        ON CONFLICT (name) DO UPDATE
        SET archive = CASE WHEN p_settings ? 'archive' THEN excluded.archive ELSE q.archive END,
            events = CASE WHEN p_settings ? 'events' THEN excluded.events ELSE q.events END;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'changed');
END;
$$;
