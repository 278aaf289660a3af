-- Returns the answer of a bulk enqueue that writes nothing, because some of its messages are refused.
-- p_refusals: as in pgqueue_enqueue_look.
-- Returns one row for each message, in the order of place: its refusal, or the outcome withheld.
-- Locks: none.
CREATE FUNCTION pgqueue_withhold(p_requests pgqueue_request[], p_refusals jsonb)
RETURNS TABLE (id bigint, outcome text, created_at timestamptz, dropped_ids bigint[], refusal jsonb)
LANGUAGE sql
STABLE
AS $$
SELECT NULL::bigint, coalesce(r.refusal ->> 'outcome', 'withheld'), NULL::timestamptz, NULL::bigint[], r.refusal
FROM unnest(p_requests) AS u
CROSS JOIN LATERAL (
    SELECT coalesce(pgqueue_validate(
        u.handler, u.payload, u.body, u.headers, u.priority, u.dequeue_at, u.delay, u.max_attempts, u.backoff,
        u.backoff_factor, u.backoff_longest, u.dedupe_key),
        pgqueue_metering_problem(u.limits, u.cost, u.order_key, u.queue, u.channel, u.handler)) AS problem
) AS v
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN v.problem IS NOT NULL THEN pgqueue_refusal('PGQ07', 'invalid message: ' || v.problem)
        ELSE p_refusals -> jsonb_build_array(u.queue, u.channel)::text
    END AS refusal
) AS r
ORDER BY u.place;
$$;
