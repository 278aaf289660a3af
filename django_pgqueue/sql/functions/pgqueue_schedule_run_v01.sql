-- Runs a schedule now, whatever its next time, which stays as it is. Disabled ones run too.
-- Caller: anyone. Returns the message's id and outcome as pgqueue_enqueue does; the tick is now.
-- Locks: as pgqueue_enqueue. Errors: PGQ09 schedule not found; those of pgqueue_enqueue.
CREATE FUNCTION pgqueue_schedule_run(
    p_name text,
    p_max_attempts integer DEFAULT 5,
    p_backoff interval DEFAULT NULL,
    p_backoff_factor double precision DEFAULT NULL,
    p_backoff_longest interval DEFAULT NULL,
    p_create_channel boolean DEFAULT false,
    OUT id bigint,
    OUT outcome text
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    v_id bigint;
    v_made record;
BEGIN
    SELECT s.id INTO v_id FROM pgqueue_schedule AS s WHERE s.name = p_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule "%"', p_name USING ERRCODE = 'PGQ09', HINT = 'Look at the table pgqueue_schedule.';
    END IF;
    v_made := pgqueue_schedule_enqueue(v_id, clock_timestamp(), true, p_max_attempts, p_backoff, p_backoff_factor, p_backoff_longest,
        p_create_channel);
    id := v_made.message_id;
    outcome := v_made.outcome;
END;
$$;
