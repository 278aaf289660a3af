-- Records messages that are settled without an archive, so that they count: one row for those of a channel.
-- p_messages: [{"queue", "channel", "attempts", "dequeue_at", "leased_at", "started_at"}].
-- Locks: none.
CREATE FUNCTION pgqueue_note_unarchived(p_outcome text, p_messages jsonb, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO pgqueue_unarchived (queue, channel, outcome, settled_at, attempts, waits, runs)
    SELECT m.queue, m.channel, p_outcome, p_now, array_agg(m.attempts),
        array_agg(date_part('epoch', coalesce(m.started_at, m.leased_at)) - date_part('epoch', m.dequeue_at)),
        array_agg(date_part('epoch', p_now) - date_part('epoch', coalesce(m.started_at, m.leased_at)))
    FROM jsonb_to_recordset(p_messages) AS m (queue text, channel text, attempts integer, dequeue_at timestamptz,
        leased_at timestamptz, started_at timestamptz)
    GROUP BY m.queue, m.channel;
END;
$$;
