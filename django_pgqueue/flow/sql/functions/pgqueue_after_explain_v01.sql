-- Returns for pgqueue_explain_message what a message waits for: {"sentence", "facts"}; NULL: for nothing. That is other
-- messages, of which it names five; or an event, or the end of a sleep.
-- Locks: none.
CREATE FUNCTION pgqueue_after_explain(p_id bigint)
RETURNS jsonb
LANGUAGE sql
STABLE
AS $$
SELECT jsonb_build_object(
    'sentence', format('It waits for %s of %s message(s): %s.%s', n.left, b.total,
        coalesce(n.names, 'the next sweep lets it go') || CASE WHEN n.left > 5 THEN ' and others' ELSE '' END,
        CASE WHEN l.lost > 0 THEN format(' %s of them ended without being completed: then %s.', l.lost,
            CASE b.policy WHEN 'run' THEN 'it runs all the same' ELSE 'it is cancelled at the end' END) ELSE '' END),
    'facts', jsonb_build_object('messages', n.ids, 'left', n.left, 'total', b.total, 'lost', l.lost,
        'on_dead', b.policy))
FROM pgqueue_batch AS b
CROSS JOIN LATERAL (
    SELECT count(*) AS left,
        string_agg(format('message %s, which is %s', o.member_id, o.state), ', ' ORDER BY o.member_id)
            FILTER (WHERE o.place <= 5) AS names,
        coalesce(jsonb_agg(o.member_id ORDER BY o.member_id) FILTER (WHERE o.place <= 5), '[]') AS ids
    FROM (
        SELECT m.member_id, row_number() OVER (ORDER BY m.member_id) AS place,
            coalesce((
                SELECT CASE WHEN g.waits_for = -2 THEN 'blocked' WHEN g.status = 1 THEN 'ready'
                    WHEN g.status = 2 THEN 'leased' ELSE 'scheduled' END
                FROM pgqueue_message AS g WHERE g.id = m.member_id
            ), 'a dead letter: a redrive of it, or its deletion, ends the wait') AS state
        FROM pgqueue_batch_member AS m WHERE m.batch_id = b.id
    ) AS o
) AS n
CROSS JOIN LATERAL (SELECT count(*) AS lost FROM pgqueue_batch_lost AS o WHERE o.batch_id = b.id) AS l
WHERE b.id = -p_id
UNION ALL
SELECT jsonb_build_object(
    'sentence', format(CASE s.kind WHEN 'wait' THEN 'It waits for the event "%s", until %s.'
        ELSE 'It sleeps in its step "%s" until %s.' END, s.name, date_trunc('second', s.until)),
    'facts', jsonb_build_object(CASE s.kind WHEN 'wait' THEN 'event' ELSE 'step' END, s.name, 'until', s.until))
FROM pgqueue_step AS s
WHERE s.message_id = p_id AND s.until > clock_timestamp()
LIMIT 1;
$$;
