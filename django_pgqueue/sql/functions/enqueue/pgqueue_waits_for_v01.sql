-- Returns the shared limit that a message waits for before it is ready, its first one; NULL: it has none, or its
-- channel is ordered. A message of an ordered channel keeps its place, and waits for a full limit when its turn has
-- come; so does every message for a limit that is one for each channel, where it stands behind its own channel only.
-- Locks: none.
CREATE FUNCTION pgqueue_waits_for(p_channel_id bigint, p_limits bigint[])
RETURNS bigint
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = p_channel_id AND c.ordered) THEN
        RETURN (
            SELECT min(u.id) FROM unnest(p_limits) AS u (id)
            WHERE NOT EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.id = u.id AND l.per = 'channel'));
    END IF;
    RETURN NULL;
END;
$$;
