-- Deletes the rows of channels from one table, or counts them.
-- p_relation: a table with the columns queue and channel. p_channels: names. p_range: a condition of the caller in SQL.
-- Returns the number of rows.
-- Locks: the rows.
CREATE FUNCTION pgqueue_erase_rows(
    p_relation regclass,
    p_queue text,
    p_channels text[],
    p_dry_run boolean,
    p_range text DEFAULT 'true'
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_rows bigint;
BEGIN
    EXECUTE format(
        CASE WHEN p_dry_run THEN 'SELECT count(*) FROM %s WHERE queue = $1 AND channel = ANY ($2) AND %s'
            ELSE 'WITH gone AS (DELETE FROM %s WHERE queue = $1 AND channel = ANY ($2) AND %s RETURNING 1)
                SELECT count(*) FROM gone'
        END, p_relation, p_range)
    INTO v_rows
    USING p_queue, p_channels;
    RETURN v_rows;
END;
$$;
