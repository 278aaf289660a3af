-- Notifies the workers of queues whose messages wait for shared limits, because a limit may have room. It looks at 100
-- limits, and at about 16 channels that wait for them: those whose turn is next. A settlement frees one place.
-- Locks: as pgqueue_wake.
CREATE FUNCTION pgqueue_wake_waiting()
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pgqueue_wake(q.queue)
    FROM (
        SELECT DISTINCT c.queue
        FROM (SELECT n.id, count(*) OVER () AS limits FROM pgqueue_waiting_limits(0, 100) AS n (id)) AS w
        LEFT JOIN pgqueue_meter AS r ON r.limit_id = w.id
        CROSS JOIN LATERAL pgqueue_waiting_channels(
            w.id, coalesce(r.turn, 0), greatest(16 / w.limits, 1)::integer) AS n (channel_id)
        JOIN pgqueue_channel AS c ON c.id = n.channel_id
    ) AS q;
END;
$$;
