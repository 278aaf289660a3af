-- Returns the first rule that a message breaks, in words; NULL when it breaks none. Each way to enqueue asks it, so all
-- have the same rules.
-- pgqueue_message_arrived asks for any other INSERT. The function is STABLE, so that it becomes a part of the
-- statement: a CHECK constraint would be parsed anew with each INSERT and each UPDATE of a lease. Sizes are those of
-- PostgreSQL's own format, which it knows without reading the value.
-- Locks: none.
CREATE FUNCTION pgqueue_validate(
    p_handler text,
    p_payload jsonb,
    p_body bytea,
    p_headers jsonb,
    p_priority integer,
    p_dequeue_at timestamptz,
    p_delay interval,
    p_max_attempts integer,
    p_backoff interval,
    p_backoff_factor double precision,
    p_backoff_longest interval,
    p_dedupe_key text
)
RETURNS text
LANGUAGE sql
STABLE
AS $$
SELECT CASE
    WHEN p_handler IS NULL OR p_handler = '' THEN 'the handler has no name'
    WHEN length(p_handler) > 200 THEN 'the name of the handler is longer than 200 characters'
    WHEN p_priority IS NULL OR p_priority NOT BETWEEN -32767 AND 32767
        THEN 'the priority is not between -32767 and 32767'
    WHEN p_dequeue_at IS NOT NULL AND p_delay IS NOT NULL THEN 'both dequeue_at and delay are given: give one'
    WHEN NOT pgqueue_is_valid_time(p_dequeue_at) THEN 'dequeue_at is outside of the years 2 to 9998'
    WHEN p_delay NOT BETWEEN '-365000 days' AND '365000 days' THEN 'delay is longer than 365000 days'
    WHEN p_max_attempts IS NULL OR p_max_attempts < 1 THEN 'max_attempts is less than 1'
    WHEN p_backoff NOT BETWEEN '0' AND '365000 days' THEN 'backoff is not between 0 and 365000 days'
    WHEN p_backoff_factor NOT BETWEEN 1 AND 1000 THEN 'backoff_factor is not between 1 and 1000'
    WHEN p_backoff_longest NOT BETWEEN '0' AND '365000 days' THEN 'backoff_longest is not between 0 and 365000 days'
    WHEN length(p_dedupe_key) > 200 THEN 'the dedupe key is longer than 200 characters'
    WHEN jsonb_typeof(p_headers) NOT IN ('object', 'null') THEN 'the headers are not a JSON object'
    WHEN coalesce(pg_column_size(p_payload), 0) + coalesce(pg_column_size(p_body), 0)
        + coalesce(pg_column_size(p_headers), 0) > 67108864
        THEN 'payload, body and headers together take more than 64 MB'
END;
$$;
