-- Deletes the rows of channels in one range of a table, 2,048 blocks (16 MB) from p_block on, or counts them.
-- p_relation: a partition of the archive, or the dead letters. p_channels: names.
-- Returns removed: how many rows; block: where the next range begins, NULL at the end of the table, or when it is gone.
-- Locks: the rows, and the table against a prune that drops it.
CREATE FUNCTION pgqueue_erase_range(
    p_relation regclass,
    p_queue text,
    p_channels text[],
    p_block bigint,
    p_dry_run boolean,
    OUT removed bigint,
    OUT block bigint
)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_indexscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    removed := pgqueue_erase_rows(p_relation, p_queue, p_channels, p_dry_run,
        format('ctid >= ''(%s,0)''::tid AND ctid < ''(%s,0)''::tid', p_block, p_block + 2048));
    IF p_block + 2048 < pg_relation_size(p_relation) / current_setting('block_size')::bigint THEN
        block := p_block + 2048;
    END IF;
EXCEPTION WHEN undefined_table THEN
    removed := 0;
END;
$$;
