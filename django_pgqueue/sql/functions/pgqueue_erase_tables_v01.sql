-- Lists the tables that an erase reads from end to end, because no index finds the rows of one channel in them: the
-- partitions of the archive, and the dead letters.
-- Locks: none.
CREATE FUNCTION pgqueue_erase_tables()
RETURNS TABLE (relation regclass)
LANGUAGE sql
STABLE
AS $$
SELECT p.relid FROM pg_partition_tree('pgqueue_archived_message') AS p WHERE p.isleaf AND p.level > 0
UNION ALL
SELECT 'pgqueue_dead_letter'::regclass;
$$;
