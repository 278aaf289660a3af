-- Fires ticks of a schedule that is due, and sets when it is due next: all or nothing, and once per tick, whatever
-- other sessions try.
-- p_version: xmin of the row that the ticks were computed from; a schedule that was fired or edited since is left
-- alone. p_ticks may be empty: then only the next time is set.
-- Returns the ticks that fired; one that a channel refuses has the outcome 'refused' and the error, and is not tried
--   again.
-- Locks: the schedule's row, SKIP LOCKED; then as pgqueue_enqueue, for 200 ms at most.
-- Errors: PGQ07 a tick is in the future; PGQ06 another transaction fills the channel for longer: raised, so that no
--   tick of the call has fired, and all of them are tried again; 55P03.
CREATE FUNCTION pgqueue_schedule_fire(
    p_id bigint,
    p_version bigint,
    p_ticks timestamptz[],
    p_next_fire_at timestamptz,
    p_max_attempts integer DEFAULT 5,
    p_backoff interval DEFAULT NULL,
    p_backoff_factor double precision DEFAULT NULL,
    p_backoff_longest interval DEFAULT NULL,
    p_create_channel boolean DEFAULT false
)
RETURNS TABLE (tick_at timestamptz, message_id bigint, outcome text, error text)
LANGUAGE plpgsql
SECURITY DEFINER
SET lock_timeout = 200
AS $$
#variable_conflict use_column
DECLARE
    v_tick timestamptz;
    v_made record;
    v_error text;
BEGIN
    PERFORM FROM pgqueue_schedule AS s
    WHERE s.id = p_id AND s.xmin::text::bigint = p_version AND s.enabled AND s.removed_at IS NULL
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOREACH v_tick IN ARRAY p_ticks LOOP
        IF v_tick > clock_timestamp() THEN
            RAISE EXCEPTION 'invalid tick: % is in the future', v_tick USING ERRCODE = 'PGQ07';
        END IF;
        tick_at := v_tick;
        v_made := pgqueue_schedule_enqueue(p_id, v_tick, false, p_max_attempts, p_backoff, p_backoff_factor,
            p_backoff_longest, p_create_channel, NULL);
        message_id := v_made.message_id;
        outcome := v_made.outcome;
        error := coalesce(v_made.refusal ->> 'message', '');
        IF outcome = 'busy' THEN
            PERFORM pgqueue_raise(v_made.refusal);
        ELSIF v_made.refusal IS NOT NULL THEN
            outcome := 'refused';
            INSERT INTO pgqueue_schedule_tick (schedule, tick_at, outcome, error)
            SELECT s.name, v_tick, 'refused', v_made.refusal ->> 'message' FROM pgqueue_schedule AS s WHERE s.id = p_id;
        END IF;
        IF outcome IS NOT NULL THEN
            v_error := error;
            RETURN NEXT;
        END IF;
    END LOOP;
    UPDATE pgqueue_schedule AS s
    SET next_fire_at = p_next_fire_at,
        last_fired_at = greatest(s.last_fired_at, (SELECT max(t) FROM unnest(p_ticks) AS t)),
        last_error = coalesce(v_error, s.last_error)
    WHERE s.id = p_id;
END;
$$;
