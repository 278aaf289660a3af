-- Returns whether a channel is not served now: it is paused, or at a limit of its own while it has ready messages.
-- pgqueue_queue_is_open answers for its queue: callers ask it once for all channels of a queue. The lane of an ordered
-- channel is parked, too, while its message waits for a shared limit, and until the arrival of its promotion is folded.
-- That does not count: such a channel is served as soon as the limit has room.
-- Locks: none.
CREATE FUNCTION pgqueue_is_parked(p_channel_id bigint)
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN coalesce((
        SELECT l.parked_until IS NOT NULL AND l.floor_at < 'infinity'
            AND (l.parked_until < 'infinity' OR l.current_id IS NULL OR NOT EXISTS (
                SELECT FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id AND c.ordered
                WHERE m.id = l.current_id AND m.channel_id = p_channel_id
                    AND (m.waits_for >= 0 OR m.promoted_for IS NOT NULL)))
        FROM pgqueue_lane AS l
        WHERE l.channel_id = p_channel_id ORDER BY l.seq DESC LIMIT 1), false)
        OR EXISTS (
            SELECT FROM pgqueue_channel AS c
            WHERE c.id = p_channel_id AND c.paused_at IS NOT NULL AND c.released_at IS NULL);
END;
$$;
