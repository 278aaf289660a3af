-- Explains which message of its order key a message waits for. Returns no row if it is the first one, and does not
-- wait.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_order_key(p_message pgqueue_message)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE sql
STABLE
AS $$
SELECT CASE WHEN f.id <> p_message.id OR n.noted THEN 'waits_for_order_key' ELSE 'order_key_unreleased' END,
    CASE
        WHEN f.id = p_message.id AND n.noted THEN format(
            'It is the next message of the order key %s: the next tick makes it ready, or a dequeue that finds none.',
            p_message.order_key)
        WHEN f.id = p_message.id THEN format(
            'It is the next message of the order key %s, and no settlement makes it ready: the one before it was '
                'deleted by hand. pgqueue_repair() makes it ready.',
            p_message.order_key)
        ELSE format('It waits for message %s of the order key %s, which is %s%s.', f.id, p_message.order_key,
            CASE f.status WHEN 1 THEN 'ready' WHEN 2 THEN 'leased'
                ELSE 'scheduled' || coalesce(' for ' || date_trunc('second', b.due_at), '') END,
            CASE WHEN f.status <> 2 THEN ', after its attempt ' || b.attempt::text || ' failed with ' || b.type END)
    END,
    jsonb_build_object('order_key', p_message.order_key, 'message', f.id, 'dequeue_at', b.due_at, 'attempt', b.attempt,
        'type', b.type)
FROM pgqueue_first_of_key(p_message.channel_id, p_message.order_key) AS f
-- The message before it: when it is due, unless it waits for a limit, and how its last attempt failed.
CROSS JOIN LATERAL (
    SELECT CASE WHEN m.status = 3 AND m.waits_for IS NULL THEN m.dequeue_at END AS due_at,
        m.errors -> -1 -> 'attempt' AS attempt, left(m.errors -> -1 ->> 'type', 200) AS type
    FROM pgqueue_message AS m WHERE m.id = f.id
) AS b
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM pgqueue_order_note AS o
        WHERE o.channel_id = p_message.channel_id AND o.order_key = p_message.order_key) AS noted
) AS n
WHERE p_message.waits_for = -1 OR f.id <> p_message.id
    AND NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = p_message.channel_id AND c.ordered);
$$;
