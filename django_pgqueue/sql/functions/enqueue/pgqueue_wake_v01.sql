-- Notifies the workers of a queue, if one of them sleeps. A worker that falls asleep later looks at the queue once more
-- first.
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
