-- Returns the refusal PGQ10 when a queue cannot be dropped: its messages are leased, or they wait and p_purge is false;
-- NULL when it can.
-- Locks: none.
CREATE FUNCTION pgqueue_queue_holds(p_queue text, p_purge boolean)
RETURNS jsonb
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    IF EXISTS (
        SELECT
        FROM pgqueue_channel AS c
        CROSS JOIN LATERAL (SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 2 LIMIT 1) AS h
        WHERE c.queue = p_queue)
    THEN
        RETURN pgqueue_refusal('PGQ10', format('workers hold leases on messages of queue "%s"', p_queue),
            'Pause the queue and wait until they have ended, or release their leases.');
    ELSIF NOT p_purge AND EXISTS (
        SELECT
        FROM pgqueue_channel AS c
        CROSS JOIN LATERAL (
            SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 1 LIMIT 1
        ) AS h
        WHERE c.queue = p_queue)
        OR NOT p_purge AND EXISTS (
            SELECT
            FROM pgqueue_message AS m
            JOIN pgqueue_channel AS c ON c.id = m.channel_id AND c.queue = p_queue
            WHERE m.status = 3)
    THEN
        RETURN pgqueue_refusal('PGQ10', format('messages wait in queue "%s"', p_queue),
            'Let workers serve them, or purge them: purge=True in Python, '
            'manage.py pgqueue drop queue --purge, p_purge in SQL.');
    END IF;
    RETURN NULL;
END;
$$;
