-- Returns when a redriven message is due. In an ordered channel that is its place, too: the place of the dead letter,
-- which comes before all that wait there and were enqueued after it.
-- p_channel: the channel to which it goes; p_from, p_due_at, p_redriven_from: the channel of the dead letter, its place
-- and its own predecessor; p_at: the time that the caller asks for. The new id is larger, so the first redrive goes a
-- microsecond before the messages that were enqueued by the same call. The function is STABLE, so that it becomes a
-- part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_redrive_time(
    p_channel pgqueue_channel, p_from text, p_due_at timestamptz, p_redriven_from bigint, p_at timestamptz,
    p_now timestamptz
)
RETURNS timestamptz
LANGUAGE sql
STABLE
AS $$
SELECT CASE
    WHEN p_channel.ordered AND p_channel.name = p_from AND (p_at <= p_now) IS NOT FALSE THEN least(p_now,
        p_due_at - CASE WHEN p_redriven_from IS NULL THEN interval '1 microsecond' ELSE '0' END)
    ELSE greatest(p_now, p_at)
END;
$$;
