-- Returns a row when no tick has run for a while: then nothing is swept, and only dequeues promote messages.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_maintenance()
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE sql
STABLE
AS $$
SELECT 'no_maintenance',
    format('No maintenance has run%s: start a worker, or call pgqueue_sweep by cron.',
        ' since ' || date_trunc('second', f.ticked_at)::text),
    jsonb_build_object('ticked_at', f.ticked_at)
FROM (SELECT max(o.ticked_at) AS ticked_at FROM pgqueue_floor AS o) AS f
WHERE coalesce(f.ticked_at, '-infinity') < clock_timestamp() - interval '10 seconds';
$$;
