-- Gives a handler a breaker, changes it, or takes it away. After some failures in a row the handler's messages wait;
-- then one of them tries, and a success lets the others go on.
-- p_settings: failures: 1 to 1,000; within, pause: intervals as text, such as "30 seconds", the pause a second or
-- longer; per: handler (default), or channel, for a breaker of its own for each channel. NULL takes the breaker away,
-- and its messages go on.
-- Returns created, changed, dropped or not_found; or the refusal PGQ07. The change holds from the next dequeue on.
-- Locks: the rows of the breaker.
CREATE FUNCTION pgqueue_breaker_set(p_handler text, p_settings jsonb, OUT outcome text, OUT refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_problem text;
    v_per text := coalesce(p_settings ->> 'per', 'handler');
    v_id bigint;
BEGIN
    IF p_settings IS NULL THEN
        outcome := pgqueue_limit_drop(pgqueue_breaker_name(p_handler));
        RETURN;
    END IF;
    v_problem := CASE
        WHEN coalesce(p_handler, '') = '' OR length(p_handler) > 160 THEN
            'the name of its handler takes 1 to 160 characters'
        WHEN num_nonnulls(p_settings ->> 'failures', p_settings ->> 'within', p_settings ->> 'pause') < 3 THEN
            coalesce(pgqueue_settings_problem('breaker', p_settings), 'failures, within and pause are needed')
        ELSE pgqueue_settings_problem('breaker', p_settings)
    END;
    IF v_problem IS NOT NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid breaker: ' || v_problem);
        outcome := refusal ->> 'outcome';
        RETURN;
    END IF;
    INSERT INTO pgqueue_limit (name, breaker_handler, breaker_failures, breaker_within, breaker_pause, per)
    VALUES (pgqueue_breaker_name(p_handler), p_handler, (p_settings ->> 'failures')::integer,
        (p_settings ->> 'within')::interval, (p_settings ->> 'pause')::interval, v_per)
    ON CONFLICT (name) DO NOTHING
    RETURNING id INTO v_id;
    outcome := CASE WHEN FOUND THEN 'created' ELSE 'changed' END;
    IF outcome = 'created' THEN
        INSERT INTO pgqueue_limit_handler (handler, limit_id, breaker) VALUES (p_handler, v_id, true);
        RETURN;
    END IF;
    -- Another kind of breaker begins anew, closed.
    UPDATE pgqueue_limit AS l
    SET breaker_failures = (p_settings ->> 'failures')::integer,
        breaker_within = (p_settings ->> 'within')::interval,
        breaker_pause = (p_settings ->> 'pause')::interval,
        open_until = CASE WHEN l.per = v_per THEN l.open_until END,
        per = v_per
    WHERE l.name = pgqueue_breaker_name(p_handler)
    RETURNING l.id INTO v_id;
    DELETE FROM pgqueue_limit AS l WHERE l.parent_id = v_id AND v_per = 'handler';
    UPDATE pgqueue_limit AS l
    SET breaker_failures = b.breaker_failures, breaker_within = b.breaker_within, breaker_pause = b.breaker_pause
    FROM pgqueue_limit AS b
    WHERE b.id = v_id AND l.parent_id = v_id;
END;
$$;
