-- Changes the settings of a whole queue that p_settings names.
-- p_settings: {"archive": "full" | "outcome" | "none", "events": true | false, "retention": interval,
-- "dead_letter_retention": interval, "max_concurrency": number, "release_interval": interval, "release_burst": number,
-- "fairness": "turns" | "share", "max_share": number,
-- "forgive": true: ends the debt of its rate}; null: as in a queue without a row, which is full, false, the
-- retention of pgqueue_prune, no limit, 1 and turns.
-- Returns changed; or the refusal PGQ03, when the queue has neither a channel nor a row, or PGQ07 invalid setting.
-- Locks: the queue's row.
CREATE FUNCTION pgqueue_queue_set(p_queue text, p_settings jsonb DEFAULT '{}', OUT outcome text, OUT refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_problem text := pgqueue_settings_problem('queue', p_settings);
BEGIN
    IF v_problem IS NOT NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid queue: ' || v_problem);
    ELSE
        refusal := pgqueue_missing_queue(p_queue);
    END IF;
    IF refusal IS NULL THEN
        INSERT INTO pgqueue_queue AS q (name, archive, events, retention, dead_letter_retention, max_concurrency,
            release_interval, release_burst, fairness, max_share)
        VALUES (p_queue, coalesce(p_settings ->> 'archive', 'full'),
            coalesce((p_settings ->> 'events')::boolean, false), (p_settings ->> 'retention')::interval,
            (p_settings ->> 'dead_letter_retention')::interval, (p_settings ->> 'max_concurrency')::integer,
            (p_settings ->> 'release_interval')::interval, coalesce((p_settings ->> 'release_burst')::integer, 1),
            coalesce(p_settings ->> 'fairness', 'turns'), (p_settings ->> 'max_share')::numeric)
        ON CONFLICT (name) DO UPDATE
        SET archive = CASE WHEN p_settings ? 'archive' THEN excluded.archive ELSE q.archive END,
            events = CASE WHEN p_settings ? 'events' THEN excluded.events ELSE q.events END,
            retention = CASE WHEN p_settings ? 'retention' THEN excluded.retention ELSE q.retention END,
            dead_letter_retention = CASE WHEN p_settings ? 'dead_letter_retention' THEN excluded.dead_letter_retention
                ELSE q.dead_letter_retention END,
            max_concurrency = CASE WHEN p_settings ? 'max_concurrency' THEN excluded.max_concurrency
                ELSE q.max_concurrency END,
            release_interval = CASE WHEN p_settings ? 'release_interval' THEN excluded.release_interval
                ELSE q.release_interval END,
            release_burst = CASE WHEN p_settings ? 'release_burst' THEN excluded.release_burst ELSE q.release_burst END,
            fairness = CASE WHEN p_settings ? 'fairness' THEN excluded.fairness ELSE q.fairness END,
            max_share = CASE WHEN p_settings ? 'max_share' THEN excluded.max_share ELSE q.max_share END;
        PERFORM pgqueue_forgive(p_queue => p_queue) WHERE p_settings -> 'forgive' = 'true';
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'changed');
END;
$$;
