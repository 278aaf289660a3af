-- Baseline "raw floor": the least a queue in PostgreSQL can cost.
-- One table, one index, one statement that deletes what it returns. No lease, no retry, no archive, no channels:
-- whatever a real queue adds shows as a ratio to this.

CREATE TABLE raw_message (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload jsonb NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE FUNCTION raw_enqueue(p_payload jsonb) RETURNS bigint
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO raw_message (payload) VALUES (p_payload) RETURNING id;
END;

-- The array keeps the LIMIT from being planned away, and the outer DELETE on the primary key.
CREATE FUNCTION raw_dequeue(p_limit int) RETURNS TABLE (id bigint, payload jsonb)
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    DELETE FROM raw_message
     WHERE id = ANY (ARRAY(
            SELECT id
              FROM raw_message
             ORDER BY id
             LIMIT p_limit
               FOR UPDATE SKIP LOCKED))
    RETURNING id, payload;
END
$$;
