-- Notifies the workers of a queue, if one of them sleeps. A worker that falls asleep later looks at the queue once more
-- first.
-- Caller: pgqueue_announce, pgqueue_arrive, pgqueue_channel_changed, pgqueue_forgive, pgqueue_message_arrived,
--   pgqueue_queue_changed, pgqueue_queue_resume, pgqueue_wake_freed, pgqueue_wake_waiting.
-- Locks: none; NOTIFY serialises commits, hence the condition.
CREATE FUNCTION pgqueue_wake(p_queue text)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM pgqueue_waiter AS w WHERE w.queue = p_queue AND w.wait_until > clock_timestamp())
        AND coalesce(current_setting('pgqueue.notify', true), '') <> 'off'
    THEN
        PERFORM pg_notify('pgqueue', p_queue);
    END IF;
END;
$$;
