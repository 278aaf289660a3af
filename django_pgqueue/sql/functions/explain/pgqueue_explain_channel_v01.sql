-- Explains why the messages of a channel are not running: first the obstacles, then what messages wait for outside of
-- the line, then the channel's place in the line; and that the channel is full, if it is.
-- p_alive: a worker that was silent for longer counts as dead.
-- Returns as pgqueue_explain_message does; or one row with the code not_found and the refusal PGQ03. Its cost is
--   bounded.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_channel(p_queue text, p_channel text, p_alive interval DEFAULT '15 seconds')
RETURNS TABLE (code text, sentence text, facts jsonb, refusal jsonb)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET IntervalStyle = postgres
AS $$
#variable_conflict use_column
DECLARE
    v_channel record;
    v_is_ready boolean;
BEGIN
    SELECT c.id, c.released_at INTO v_channel FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.name = p_channel;
    IF NOT FOUND THEN
        RETURN QUERY SELECT m.refusal ->> 'outcome', m.refusal ->> 'message', '{}'::jsonb, m.refusal
        FROM pgqueue_missing_channel(p_queue, p_channel, false) AS m;
        RETURN;
    END IF;
    v_is_ready := EXISTS (SELECT FROM pgqueue_message AS m WHERE m.channel_id = v_channel.id AND m.status = 1);
    RETURN QUERY SELECT o.code, o.sentence, o.facts, NULL::jsonb
        FROM pgqueue_explain_obstacles(v_channel.id, NULL, v_is_ready, p_alive) AS o;
    IF NOT v_is_ready THEN
        RETURN QUERY
        SELECT 'empty',
            format('Nothing of it is ready. Leased messages: %s%s.%s', CASE WHEN n.leased = 1000 THEN 'at least ' END,
                n.leased, CASE
                    WHEN n.due_at > clock_timestamp()
                        THEN format(' The next one is due at %s.', date_trunc('second', n.due_at))
                    WHEN n.due_at IS NOT NULL THEN format(
                        ' One was due at %s and is not promoted yet: the next tick does it, or a dequeue that finds '
                        'too few messages.', date_trunc('second', n.due_at)) END),
            jsonb_build_object('leased', n.leased, 'dequeue_at', n.due_at), NULL::jsonb
        FROM (
            SELECT (
                    SELECT count(*) FROM (
                        SELECT FROM pgqueue_message AS m
                        WHERE m.channel_id = v_channel.id AND m.status = 2 LIMIT 1000) AS l
                ) AS leased,
                -- Messages that wait for a limit or their order key are due already: they do not count here.
                coalesce((
                    SELECT min(o.dequeue_at) FROM (
                        SELECT m.dequeue_at, m.waits_for FROM pgqueue_message AS m
                        WHERE m.channel_id = v_channel.id AND m.status = 3 ORDER BY m.dequeue_at LIMIT 1000) AS o
                    WHERE o.waits_for IS NULL
                ), (
                    SELECT min(o.dequeue_at) FROM (
                        SELECT m.dequeue_at, m.waits_for FROM pgqueue_message AS m
                        WHERE m.channel_id = v_channel.id AND m.status = 3 AND m.dequeue_at > clock_timestamp()
                        ORDER BY m.dequeue_at LIMIT 1000) AS o
                    WHERE o.waits_for IS NULL
                )) AS due_at
        ) AS n;
    END IF;
    RETURN QUERY
    SELECT 'full',
        format('It is full: it holds %s of %s messages (max_size). %s', n.live, n.max_size,
            CASE n.full_policy WHEN 'drop_oldest' THEN 'A new message drops the oldest one that waits.'
                WHEN 'replace' THEN 'A new message drops all that wait.'
                WHEN 'drop' THEN 'A new message is dropped.' ELSE 'A new message is refused.' END),
        jsonb_build_object('live', n.live, 'max_size', n.max_size, 'full_policy', n.full_policy), NULL::jsonb
    FROM (
        SELECT c.max_size, c.full_policy, s.live - (
                SELECT coalesce(sum(d.messages), 0) FROM pgqueue_departure AS d WHERE d.channel_id = c.id) AS live
        FROM pgqueue_channel AS c JOIN pgqueue_channel_size AS s ON s.channel_id = c.id
        WHERE c.id = v_channel.id AND c.released_at IS NULL
    ) AS n
    WHERE n.live >= n.max_size;
    IF v_channel.released_at IS NOT NULL THEN
        RETURN QUERY SELECT 'released',
            format('It was released at %s: it takes no new messages, '
                'delivers the others without its limits, and is then removed.',
                date_trunc('second', v_channel.released_at)),
            jsonb_build_object('released_at', v_channel.released_at), NULL::jsonb;
    END IF;
END;
$$;
