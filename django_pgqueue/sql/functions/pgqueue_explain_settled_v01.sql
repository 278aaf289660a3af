-- Explains how a message that is not live any more was settled, or that the message is not known.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_settled(p_id bigint)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_silent text[];
BEGIN
    RETURN QUERY SELECT a.outcome::text,
        format('It was %s at %s%s, %s.%s%s', a.outcome, date_trunc('second', a.archived_at), ' by worker ' || a.worker,
            CASE WHEN a.attempts = 0 THEN 'before any delivery'
                ELSE format('at attempt %s of %s', a.attempts, a.max_attempts) END,
            CASE WHEN a.outcome = 'cancelled' THEN ' Reason: ' || left(a.result ->> 'reason', 500) END,
            CASE WHEN a.payload IS NULL THEN ' Its payload was not archived.' END),
        jsonb_build_object('at', a.archived_at, 'queue', a.queue, 'channel', a.channel, 'worker', a.worker,
            'attempts', a.attempts, 'max_attempts', a.max_attempts, 'redriven_from', a.redriven_from)
    FROM pgqueue_archived_message AS a
    WHERE a.id = p_id;
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT 'dead',
        format('It became a dead letter at %s%s, at attempt %s of %s: %s.%s', date_trunc('second', d.dead_at),
            ' by worker ' || d.worker, d.attempts, d.max_attempts, d.reason,
            ' ' || nullif(left(coalesce(d.details ->> 'message', d.errors -> -1 ->> 'message'), 500), '')),
        jsonb_build_object('at', d.dead_at, 'queue', d.queue, 'channel', d.channel, 'worker', d.worker,
            'attempts', d.attempts, 'max_attempts', d.max_attempts, 'reason', d.reason,
            'redriven_from', d.redriven_from)
    FROM pgqueue_dead_letter AS d
    WHERE d.id = p_id;
    IF FOUND THEN
        RETURN QUERY SELECT 'redriven',
            format('It was redriven at %s: message %s is the new one.', date_trunc('second', d.redriven_at),
                d.redriven_to),
            jsonb_build_object('at', d.redriven_at, 'redriven_to', d.redriven_to)
        FROM pgqueue_dead_letter AS d
        WHERE d.id = p_id AND d.redriven_at IS NOT NULL;
        RETURN;
    END IF;
    v_silent := ARRAY(
        SELECT format('queue "%s"', q.name) FROM pgqueue_queue AS q WHERE q.archive = 'none'
        UNION ALL
        SELECT format('channel "%s" of queue "%s"', c.name, c.queue) FROM pgqueue_channel AS c WHERE c.archive = 'none'
        LIMIT 4);
    RETURN QUERY SELECT 'unknown',
        format('There is no message %s: ', p_id) || CASE
            WHEN p_id > s.last_value THEN format('the newest id that was given out is %s.', s.last_value)
            ELSE 'its transaction was rolled back or has not committed yet, retention has dropped it, '
                'or it was settled and nothing was archived '
                || format('of it (archive = none%s).',
                    ', as is set for ' || nullif(array_to_string(v_silent[:3], ', '), '')
                    || CASE WHEN cardinality(v_silent) > 3 THEN ' and others' ELSE '' END)
        END,
        jsonb_build_object('newest_id', s.last_value, 'archive_none', to_jsonb(v_silent))
    FROM pgqueue_message_id_seq AS s;
END;
$$;
