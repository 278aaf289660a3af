-- Locks the row of a breaker, for an edit by hand; makes the row of a breaker by channel that has none yet.
-- p_channel, p_queue: the channel of a breaker by channel; NULL for one of a handler.
-- Returns its id; or the refusal PGQ07: there is no such breaker.
-- Locks: the rows of the breaker.
CREATE FUNCTION pgqueue_find_breaker(
    p_handler text, p_queue text, p_channel text, OUT id bigint, OUT refusal jsonb
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_breaker pgqueue_limit;
    v_channel_id bigint;
BEGIN
    -- It changes nothing, and locks the row as each edit does.
    UPDATE pgqueue_limit AS l SET breaker_handler = p_handler
    WHERE l.name = pgqueue_breaker_name(p_handler) AND l.breaker_failures IS NOT NULL
    RETURNING l.* INTO v_breaker;
    SELECT c.id INTO v_channel_id FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.name = p_channel;
    refusal := CASE
        WHEN v_breaker.id IS NULL THEN pgqueue_refusal('PGQ07', format('the handler "%s" has no breaker', p_handler),
            'Give it one with @handler(…, breaker=Breaker(…)), or use handler_pause.')
        WHEN v_breaker.per = 'channel' AND p_channel IS NULL THEN
            pgqueue_refusal('PGQ07', format('the breaker of %s is one for each channel', p_handler),
                'Name the channel.')
        WHEN v_breaker.per = 'handler' AND p_channel IS NOT NULL THEN
            pgqueue_refusal('PGQ07', format('the breaker of %s is one for all channels', p_handler),
                'Name no channel.')
        WHEN p_channel IS NOT NULL AND v_channel_id IS NULL THEN
            pgqueue_refusal('PGQ07', format('the queue "%s" has no channel "%s"', p_queue, p_channel),
                'Look for its name in pgqueue_channel.')
    END;
    IF refusal IS NOT NULL THEN
        RETURN;
    END IF;
    id := v_breaker.id;
    IF v_channel_id IS NOT NULL THEN
        id := pgqueue_limit_of_channel(v_breaker, v_channel_id);
    END IF;
END;
$$;
