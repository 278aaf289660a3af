-- Enqueues the message of one tick, unless the tick has fired before: then the outcome is NULL.
-- The message's headers name its origin: schedule, tick_at. Without overlap, all ticks have the same dedupe key.
-- Returns the message and outcome, or the refusal of pgqueue_enqueue: then the tick has not fired.
-- Locks: as pgqueue_enqueue; an open transaction that fires the same tick.
CREATE FUNCTION pgqueue_schedule_enqueue(
    p_id bigint,
    p_tick_at timestamptz,
    p_by_hand boolean,
    p_max_attempts integer,
    p_backoff interval,
    p_backoff_factor double precision,
    p_backoff_longest interval,
    p_create_channel boolean,
    p_wait interval,
    OUT message_id bigint,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_schedule record;
    v_tick_id bigint;
    v_new record;
BEGIN
    SELECT s.* INTO v_schedule FROM pgqueue_schedule AS s WHERE s.id = p_id;
    INSERT INTO pgqueue_schedule_tick (schedule, tick_at, by_hand, outcome)
    VALUES (v_schedule.name, p_tick_at, p_by_hand, 'created')
    ON CONFLICT (schedule, tick_at) DO NOTHING
    RETURNING pgqueue_schedule_tick.id INTO v_tick_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT e.* INTO v_new
    FROM pgqueue_enqueue(
        p_handler => v_schedule.handler,
        p_payload => v_schedule.payload,
        p_queue => v_schedule.queue,
        p_channel => v_schedule.channel,
        p_headers => coalesce(v_schedule.headers, '{}') || jsonb_build_object(
            'schedule', v_schedule.name, 'tick_at', (to_jsonb(p_tick_at AT TIME ZONE 'UTC') #>> '{}') || 'Z'),
        p_priority => v_schedule.priority,
        p_max_attempts => p_max_attempts,
        p_backoff => p_backoff,
        p_backoff_factor => p_backoff_factor,
        p_backoff_longest => p_backoff_longest,
        p_dedupe_key => CASE WHEN NOT v_schedule.overlap THEN 'schedule: ' || v_schedule.name END,
        p_create_channel => p_create_channel,
        p_wait => p_wait) AS e;
    IF v_new.refusal IS NULL THEN
        UPDATE pgqueue_schedule_tick AS t SET message_id = v_new.id, outcome = v_new.outcome WHERE t.id = v_tick_id;
    ELSE
        DELETE FROM pgqueue_schedule_tick AS t WHERE t.id = v_tick_id;
    END IF;
    message_id := v_new.id;
    outcome := v_new.outcome;
    refusal := v_new.refusal;
END;
$$;
