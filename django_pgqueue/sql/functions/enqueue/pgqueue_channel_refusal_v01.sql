-- Builds the refusal of a channel that is full (PGQ04), released (PGQ05) or busy (PGQ06). It names the channel and its
-- queue.
-- p_sqlstate: one of these three. p_live, p_messages: of a full channel, how many messages it holds, and how many more
-- there are to enqueue.
-- Locks: none.
CREATE FUNCTION pgqueue_channel_refusal(p_sqlstate text, p_channel_id bigint, p_live bigint DEFAULT NULL,
    p_messages bigint DEFAULT 1)
RETURNS jsonb
LANGUAGE sql
STABLE
AS $$
SELECT CASE p_sqlstate
    WHEN 'PGQ04' THEN pgqueue_refusal(p_sqlstate,
        n.label || format(' holds %s of %s messages', p_live, n.max_size)
            || CASE WHEN p_messages > 1 THEN format('; %s more do not fit', p_messages) ELSE '' END,
        CASE
            WHEN n.full_policy IN ('drop_oldest', 'replace')
                THEN 'Leased messages are not dropped, and a redrive drops no message. '
                    'Wait until messages are settled, or raise max_size.'
            ELSE 'Wait until messages are settled, raise max_size, or set full_policy.'
        END)
    WHEN 'PGQ05' THEN pgqueue_refusal(p_sqlstate, n.label || ' has been released and takes no new messages',
        'Enqueue to another channel. When this one has drained, '
            || format('pgqueue_channel_set(p_queue => %L, p_channel => %L) makes a new one of its name.', n.queue,
                n.name))
    WHEN 'PGQ06' THEN pgqueue_refusal(p_sqlstate, n.label || ' is busy: an open transaction is enqueueing to it',
        'Try again later. Enqueue to several channels that have a max_size with one pgqueue_enqueue_many() call.')
END
FROM (
    SELECT format('channel "%s" of queue "%s"', c.name, c.queue) AS label, c.queue, c.name, c.max_size, c.full_policy
    FROM pgqueue_channel AS c
    WHERE c.id = p_channel_id
) AS n;
$$;
