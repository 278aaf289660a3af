-- Keeps how far the handler of a leased message is, in place of what was kept before.
-- p_done of p_total (NULL: unknown), in any unit; p_note: at most 500 characters, the rest is cut off.
-- Returns whether it was kept; false: the lease is lost, or a later one has written already.
-- Locks: the row of the progress, which handlers of the same message write.
CREATE FUNCTION pgqueue_progress(
    p_id bigint, p_token uuid, p_done double precision, p_total double precision DEFAULT NULL, p_note text DEFAULT ''
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    INSERT INTO pgqueue_progress AS p (message_id, channel_id, leased_at, done, total, note)
    SELECT m.id, m.channel_id, m.leased_at, p_done, p_total, left(coalesce(p_note, ''), 500)
    FROM pgqueue_message AS m WHERE m.id = p_id AND m.lease_token = p_token
    ON CONFLICT (message_id) DO UPDATE
    SET leased_at = excluded.leased_at, done = excluded.done, total = excluded.total, note = excluded.note,
        updated_at = clock_timestamp()
    WHERE p.leased_at <= excluded.leased_at;
    RETURN FOUND;
END;
$$;
