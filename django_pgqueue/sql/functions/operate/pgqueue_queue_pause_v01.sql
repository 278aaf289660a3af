-- Pauses a queue: no message of any of its channels is delivered; enqueue goes on, and leased messages may be settled.
-- p_until: when the sweep resumes the queue; NULL: it stays paused until pgqueue_queue_resume.
-- Returns paused; or the refusal PGQ03, when the queue has neither a channel nor a row, or PGQ07.
-- Locks: the queue's row.
CREATE FUNCTION pgqueue_queue_pause(
    p_queue text DEFAULT 'default',
    p_reason text DEFAULT '',
    p_until timestamptz DEFAULT NULL,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    refusal := coalesce(pgqueue_past_pause(p_until), pgqueue_missing_queue(p_queue));
    IF refusal IS NULL THEN
        INSERT INTO pgqueue_queue AS q (name, paused_at, pause_reason, paused_until)
        VALUES (p_queue, clock_timestamp(), coalesce(p_reason, ''), nullif(p_until, 'infinity'))
        ON CONFLICT (name) DO UPDATE
        SET paused_at = coalesce(q.paused_at, excluded.paused_at),
            pause_reason = excluded.pause_reason,
            paused_until = excluded.paused_until;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'paused');
END;
$$;
