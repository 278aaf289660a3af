-- Frees the name of a released channel that has drained, for a channel of the same name: the row gets another name and
-- stays until pgqueue_remove_released finds it safe. An enqueue that has looked the channel up and is not committed yet
-- belongs to the old channel: it must meet its context, not that of a new tenant.
-- Returns NULL; or the refusal PGQ05: it still has messages.
-- Locks: the channel's row.
CREATE FUNCTION pgqueue_make_room(p_queue text, p_channel text)
RETURNS jsonb
LANGUAGE plpgsql
AS $$
DECLARE
    v_id bigint;
    v_live bigint;
BEGIN
    SELECT c.id INTO v_id FROM pgqueue_channel AS c
    WHERE c.queue = p_queue AND c.name = p_channel AND c.released_at IS NOT NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    v_live := pgqueue_count_live(v_id);
    IF v_live > 0 THEN
        RETURN pgqueue_refusal('PGQ05',
            format('channel "%s" of queue "%s" was released and still drains %s message(s)', p_channel, p_queue,
                v_live),
            'Wait until they are settled, or purge the channel. To take the release back, set released_at to NULL.');
    END IF;
    UPDATE pgqueue_channel AS c SET name = format('%s (released %s)', left(c.name, 160), c.id)
    WHERE c.id = v_id AND c.queue = p_queue AND c.name = p_channel AND c.released_at IS NOT NULL;
    RETURN NULL;
END;
$$;
