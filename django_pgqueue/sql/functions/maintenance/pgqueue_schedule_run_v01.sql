-- Runs a schedule now, and leaves its next time as it is. Disabled schedules run, too.
-- Returns as pgqueue_enqueue does; or the refusal PGQ09, schedule not found. The tick is now.
-- Locks: as pgqueue_enqueue.
CREATE FUNCTION pgqueue_schedule_run(
    p_name text,
    p_max_attempts integer DEFAULT 5,
    p_backoff interval DEFAULT NULL,
    p_backoff_factor double precision DEFAULT NULL,
    p_backoff_longest interval DEFAULT NULL,
    p_create_channel boolean DEFAULT false,
    p_wait interval DEFAULT NULL,
    OUT id bigint,
    OUT outcome text,
    OUT refusal jsonb
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
        refusal := pgqueue_refusal('PGQ09', format('there is no schedule "%s"', left(p_name, 200)),
            'Look at the table pgqueue_schedule.');
        outcome := 'not_found';
        RETURN;
    END IF;
    v_made := pgqueue_schedule_enqueue(v_id, clock_timestamp(), true, p_max_attempts, p_backoff, p_backoff_factor,
        p_backoff_longest, p_create_channel, p_wait);
    id := v_made.message_id;
    outcome := v_made.outcome;
    refusal := v_made.refusal;
END;
$$;
