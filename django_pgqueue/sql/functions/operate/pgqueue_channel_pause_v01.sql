-- Pauses a channel: its messages are not delivered any more, enqueue goes on, and leased messages may be settled.
-- p_until: when the sweep resumes the channel; NULL: it stays paused until pgqueue_channel_resume.
-- Returns paused; or the refusal PGQ03 or PGQ07.
-- Locks: the channel's row.
CREATE FUNCTION pgqueue_channel_pause(
    p_queue text,
    p_channel text,
    p_reason text DEFAULT '',
    p_until timestamptz DEFAULT NULL,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    refusal := pgqueue_past_pause(p_until);
    IF refusal IS NULL THEN
        UPDATE pgqueue_channel AS c
        SET paused_at = coalesce(c.paused_at, clock_timestamp()),
            pause_reason = coalesce(p_reason, ''),
            paused_until = nullif(p_until, 'infinity')
        WHERE c.queue = p_queue AND c.name = p_channel;
        IF NOT FOUND THEN
            SELECT m.refusal INTO refusal FROM pgqueue_missing_channel(p_queue, p_channel, false) AS m;
        END IF;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'paused');
END;
$$;
