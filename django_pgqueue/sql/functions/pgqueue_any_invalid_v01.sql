-- Returns whether a message of a bulk enqueue breaks a rule of messages.
-- The parameters are those of pgqueue_enqueue_many.
-- Most calls give few of the arrays: then only those are looked at. Payloads that are together smaller than the largest
-- message need no look.
-- Locks: none.
CREATE FUNCTION pgqueue_any_invalid(
    p_handlers text[],
    p_payloads jsonb[],
    p_bodies bytea[],
    p_headers jsonb[],
    p_priorities integer[],
    p_dequeue_ats timestamptz[],
    p_delays interval[],
    p_max_attempts integer[],
    p_backoffs interval[],
    p_backoff_factors double precision[],
    p_backoff_longests interval[],
    p_dedupe_keys text[],
    p_limits jsonb[],
    p_costs integer[],
    p_order_keys text[],
    p_queues text[],
    p_channels text[]
)
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF num_nonnulls(p_bodies, p_headers, p_dequeue_ats, p_delays, p_backoffs, p_backoff_factors, p_backoff_longests,
        p_dedupe_keys, p_limits, p_costs, p_order_keys) = 0 AND pg_column_size(p_payloads) < 67108864
    THEN
        RETURN (SELECT min(pgqueue_validate(u.handler, NULL, NULL, NULL, coalesce(u.priority, 0), NULL, NULL,
            coalesce(u.max_attempts, 5), NULL, NULL, NULL, NULL)) IS NOT NULL
        FROM unnest(p_handlers, p_priorities, p_max_attempts) AS u (handler, priority, max_attempts));
    END IF;
    RETURN (SELECT min(pgqueue_validate(u.handler, u.payload, u.body, u.headers, coalesce(u.priority, 0),
        u.dequeue_at, u.delay, coalesce(u.max_attempts, 5), u.backoff, u.backoff_factor, u.backoff_longest,
        u.dedupe_key)) IS NOT NULL OR bool_or(num_nonnulls(u.limits, u.cost, u.order_key) > 0
            AND pgqueue_metering_problem(u.limits, u.cost, u.order_key, coalesce(u.queue, 'default'),
                coalesce(u.channel, 'default'), u.handler) IS NOT NULL)
    FROM unnest(p_handlers, p_payloads, p_bodies, p_headers, p_priorities, p_dequeue_ats, p_delays, p_max_attempts,
        p_backoffs, p_backoff_factors, p_backoff_longests, p_dedupe_keys, p_limits, p_costs, p_order_keys, p_queues,
        p_channels) AS u
        (handler, payload, body, headers, priority, dequeue_at, delay, max_attempts, backoff, backoff_factor,
        backoff_longest, dedupe_key, limits, cost, order_key, queue, channel));
END;
$$;
