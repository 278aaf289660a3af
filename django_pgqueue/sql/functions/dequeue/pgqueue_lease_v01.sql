-- Leases messages that the caller has taken: counts the attempt, and gives all of them the token.
-- p_ids: locked; p_at: the reading of the clock by which they were taken; p_patient, p_beside: see
-- pgqueue_hold_limit. The settings of the callers pin the plans.
-- Returns the messages in the order of p_ids, without those whose shared limits are full (pgqueue_lease_within).
-- Locks: shared limits, SKIP LOCKED.
CREATE FUNCTION pgqueue_lease(
    p_ids bigint[],
    p_at timestamptz,
    p_lease interval,
    p_worker text,
    p_token uuid,
    p_patient boolean DEFAULT true,
    p_beside boolean DEFAULT false
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
AS $$
DECLARE
    v_asking bigint[];
BEGIN
    IF EXISTS (SELECT FROM pgqueue_limit) THEN
        v_asking := ARRAY(SELECT a.id FROM pgqueue_must_ask(p_ids) AS a);
        IF v_asking <> '{}' AND NOT pgqueue_take_alike(v_asking, p_at, p_beside) THEN
            p_ids := pgqueue_lease_within(p_ids, p_at, p_patient, p_beside);
        END IF;
    END IF;
    RETURN QUERY
    -- Leases the messages.
    WITH leased AS (
        UPDATE pgqueue_message AS m
        SET status = 2, attempts = m.attempts + 1, leased_at = p_at, lease_expires_at = p_at + p_lease,
            lease_token = p_token, worker = p_worker, waits_for = NULL, promoted_for = NULL
        WHERE m.id = ANY (p_ids)
        RETURNING m.id, m.channel_id, m.handler, m.payload, m.body, m.headers, m.priority, m.attempts, m.max_attempts,
            m.lease_token, m.lease_expires_at, m.state, m.created_at, m.dequeue_at, m.last_leased_at
    )
    SELECT l.id, c.name::text, l.handler::text, l.payload, l.body, l.headers, l.priority, l.attempts, l.max_attempts,
        l.lease_token, l.lease_expires_at, l.state, l.created_at, l.dequeue_at, nullif(c.context, '{}'),
        l.last_leased_at
    FROM leased AS l
    LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id
    ORDER BY array_position(p_ids, l.id);
END;
$$;
