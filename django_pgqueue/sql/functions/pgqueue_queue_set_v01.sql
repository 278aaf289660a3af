-- Changes the settings of a whole queue that p_settings names.
-- Caller: lifecycle.queue_set.
-- p_settings: {"archive": "full" | "outcome" | "none", "events": true | false, "retention": interval,
-- "dead_letter_retention": interval}; null: as in a queue without a row, which is full, false and the retention of
-- pgqueue_prune.
-- Returns changed; or the refusal PGQ03, when the queue has neither a channel nor a row, or PGQ07 invalid setting.
-- Locks: the queue's row.
CREATE FUNCTION pgqueue_queue_set(p_queue text, p_settings jsonb DEFAULT '{}', OUT outcome text, OUT refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_known text[] := ARRAY['archive', 'events', 'retention', 'dead_letter_retention'];
    v_problem text;
BEGIN
    v_problem := CASE
        WHEN jsonb_typeof(p_settings) IS DISTINCT FROM 'object' THEN 'the settings are not a JSON object'
        WHEN p_settings - v_known <> '{}' THEN
            format('unknown settings %s; known are %s', left((p_settings - v_known)::text, 100), v_known)
        WHEN coalesce(p_settings -> 'events', 'null') NOT IN ('true', 'false', 'null') THEN
            format('events is %s: it takes true or false', left(p_settings ->> 'events', 100))
        ELSE coalesce(pgqueue_archive_problem(p_settings ->> 'archive'),
            pgqueue_retention_problem('retention', p_settings ->> 'retention'),
            pgqueue_retention_problem('dead_letter_retention', p_settings ->> 'dead_letter_retention'))
    END;
    IF v_problem IS NOT NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid queue: ' || v_problem);
    ELSE
        refusal := pgqueue_missing_queue(p_queue);
    END IF;
    IF refusal IS NULL THEN
        INSERT INTO pgqueue_queue AS q (name, archive, events, retention, dead_letter_retention)
        VALUES (p_queue, coalesce(p_settings ->> 'archive', 'full'),
            coalesce((p_settings ->> 'events')::boolean, false), (p_settings ->> 'retention')::interval,
            (p_settings ->> 'dead_letter_retention')::interval)
        ON CONFLICT (name) DO UPDATE
        SET archive = CASE WHEN p_settings ? 'archive' THEN excluded.archive ELSE q.archive END,
            events = CASE WHEN p_settings ? 'events' THEN excluded.events ELSE q.events END,
            retention = CASE WHEN p_settings ? 'retention' THEN excluded.retention ELSE q.retention END,
            dead_letter_retention = CASE WHEN p_settings ? 'dead_letter_retention' THEN excluded.dead_letter_retention
                ELSE q.dead_letter_retention END;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'changed');
END;
$$;
