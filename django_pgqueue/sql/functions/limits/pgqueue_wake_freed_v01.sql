-- Wakes workers, because messages have left a limit: their place is free, or the tokens that one of them waited for.
-- p_channel_ids: the channels of the messages. The settings of the callers pin the plans.
-- Locks: none.
CREATE FUNCTION pgqueue_wake_freed(p_channel_ids bigint[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    -- Workers do not sleep while there is work: the look comes first, because the rest costs more.
    IF NOT EXISTS (SELECT FROM pgqueue_waiter AS w WHERE w.wait_until > clock_timestamp()) THEN
        RETURN;
    END IF;
    PERFORM pgqueue_wake(q.queue)
    FROM (SELECT DISTINCT c.queue FROM pgqueue_channel AS c
        WHERE c.id = ANY (p_channel_ids) AND (c.max_concurrency IS NOT NULL OR EXISTS (
            SELECT FROM pgqueue_queue AS n
            WHERE n.name = c.queue AND (n.max_concurrency IS NOT NULL OR n.max_share IS NOT NULL)))) AS q;
    PERFORM pgqueue_wake_waiting();
END;
$$;
