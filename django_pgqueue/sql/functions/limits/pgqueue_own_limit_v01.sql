-- Returns the row in which a message of the channel takes its place: that of the limit, or, of a limit for each
-- channel, that of the channel. NULL: the channel has none yet (pgqueue_limit_of_channel).
-- Locks: none.
CREATE FUNCTION pgqueue_own_limit(p_limit_id bigint, p_channel_id bigint)
RETURNS bigint
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF EXISTS (
        SELECT FROM pgqueue_limit AS l
        WHERE l.id = p_limit_id AND l.per = 'channel' AND l.parent_id IS NULL AND l.breaker_failures IS NULL) THEN
        RETURN (SELECT c.id FROM pgqueue_limit AS c WHERE c.parent_id = p_limit_id AND c.channel_id = p_channel_id);
    END IF;
    RETURN p_limit_id;
END;
$$;
