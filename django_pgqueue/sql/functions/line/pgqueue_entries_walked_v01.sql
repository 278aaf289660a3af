-- Returns how many index entries of lanes in the line and of arrivals this transaction has read. After a tick it says
-- how many dead ones lie there, because the tick reads few others.
-- PostgreSQL counts them (track_counts, which autovacuum needs, too). The function returns 0 where it does not.
-- Locks: none.
CREATE FUNCTION pgqueue_entries_walked()
RETURNS bigint
LANGUAGE sql
AS $$
SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(to_regclass(i.name))), 0)::bigint
FROM unnest(ARRAY['pgqueue_lane_head', 'pgqueue_arrival_xid']) AS i (name);
$$;
