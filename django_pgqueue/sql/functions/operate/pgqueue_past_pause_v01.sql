-- Returns the refusal of a pause that would be over already, or that ends in a year that Python does not have; NULL
-- when the pause is valid.
-- Locks: none.
CREATE FUNCTION pgqueue_past_pause(p_until timestamptz)
RETURNS jsonb
LANGUAGE sql
STABLE
AS $$
SELECT CASE
    WHEN isfinite(p_until) AND NOT pgqueue_is_valid_time(p_until) THEN
        pgqueue_refusal('PGQ07', 'cannot pause until a time outside of the years 2 to 9998',
            'Give no time to pause without an end.')
    WHEN p_until <= clock_timestamp() THEN
        pgqueue_refusal('PGQ07', format('a pause until %s is over already', p_until),
            'Give a time in the future, or none.')
END;
$$;
