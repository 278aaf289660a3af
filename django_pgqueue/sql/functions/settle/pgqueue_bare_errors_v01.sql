-- Returns when and where each attempt failed, and the type of its exception: an archive of outcomes keeps no more,
-- because messages and tracebacks quote the payload. NULL stays NULL.
-- Locks: none.
CREATE FUNCTION pgqueue_bare_errors(p_errors jsonb)
RETURNS jsonb
LANGUAGE sql
IMMUTABLE
AS $$
SELECT jsonb_agg(
    jsonb_strip_nulls(jsonb_build_object(
        'attempt', e.error -> 'attempt', 'leased_at', e.error -> 'leased_at',
        'started_at', e.error -> 'started_at', 'at', e.error -> 'at',
        'worker', e.error -> 'worker', 'interruption', e.error -> 'interruption', 'type', left(e.error ->> 'type', 200)))
    ORDER BY e.place)
FROM jsonb_array_elements(CASE WHEN jsonb_typeof(p_errors) = 'array' THEN p_errors END)
    WITH ORDINALITY AS e (error, place)
WHERE jsonb_typeof(e.error) = 'object';
$$;
