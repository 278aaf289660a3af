-- Lets a message go that waits for others, when none of them is left: it becomes ready, or scheduled for its time. If
-- one was not completed, it is archived as cancelled instead, unless its policy is run; then its row in pgqueue_batch
-- is over, and the caller goes on with the messages that wait for this one (pgqueue_after_settled).
-- p_id: the id of the message, negative.
-- Returns 1 if it has done so, else 0. If another transaction has locked the message, the next sweep does it.
-- Locks: the row of pgqueue_batch, which the caller has locked; the message, SKIP LOCKED.
CREATE FUNCTION pgqueue_after_finish(p_id bigint)
RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_message pgqueue_message;
    v_lost record;
    v_limit bigint;
BEGIN
    PERFORM FROM pgqueue_batch AS b
    WHERE b.id = p_id AND b.finished_at IS NULL
        AND NOT EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = p_id);
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT m.* INTO v_message FROM pgqueue_message AS m
    WHERE m.id = -p_id AND m.waits_for = -2 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO pgqueue_batch_unsure (batch_id)
        SELECT p_id FROM pgqueue_message AS m WHERE m.id = -p_id AND m.waits_for = -2;
        IF NOT FOUND THEN
            DELETE FROM pgqueue_batch AS b WHERE b.id = p_id;
        END IF;
        RETURN 0;
    END IF;
    SELECT l.member_id, l.outcome INTO v_lost
    FROM pgqueue_batch_lost AS l JOIN pgqueue_batch AS b ON b.id = l.batch_id
    WHERE l.batch_id = p_id AND b.policy <> 'run'
    ORDER BY l.member_id LIMIT 1;
    IF FOUND THEN
        UPDATE pgqueue_batch AS b SET finished_at = v_now WHERE b.id = p_id;
        -- The archive tells its batch, but not those that wait for it: a long chain would nest as deep.
        UPDATE pgqueue_message AS m
        SET flow = nullif(-m.flow, 0), cancelled_at = v_now,
            cancel_reason = format('message %s, which it waited for, was not completed: %s', v_lost.member_id,
                v_lost.outcome)
        WHERE m.id = v_message.id;
        PERFORM pgqueue_archive(ARRAY[v_message.id], 'cancelled');
        RETURN 1;
    END IF;
    IF v_message.limits IS NOT NULL AND v_message.dequeue_at <= v_now THEN
        v_limit := pgqueue_waits_for(v_message.channel_id, v_message.limits);
    END IF;
    -- It has been due from now on: its wait was not the workers' fault.
    UPDATE pgqueue_message AS m
    SET status = CASE WHEN m.dequeue_at > v_now OR v_limit IS NOT NULL THEN 3 ELSE 1 END, waits_for = v_limit,
        dequeue_at = greatest(m.dequeue_at, v_now)
    WHERE m.id = v_message.id;
    DELETE FROM pgqueue_batch_lost AS l WHERE l.batch_id = p_id;
    DELETE FROM pgqueue_batch AS b WHERE b.id = p_id;
    PERFORM pgqueue_announce(ARRAY[v_message.id]);
    IF v_limit IS NOT NULL THEN
        PERFORM pgqueue_wake_waiting();
    END IF;
    RETURN 1;
END;
$$;
