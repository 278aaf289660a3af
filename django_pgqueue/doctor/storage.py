"""Find dead rows, empty space and old rows in the queue's tables, from the server's statistics alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django_pgqueue.doctor.finding import Finding, Limits, Severity, size_text
from django_pgqueue.sql.call import call

TABLES = """
SELECT c.relname::text, s.live, s.n_dead_tup, pg_relation_size(c.oid), age(c.relfrozenxid),
    greatest(s.last_autovacuum, s.last_vacuum),
    CASE s.live WHEN 0 THEN 0 ELSE s.live * w.width::bigint * 100 / w.fill END
FROM pg_class AS c
CROSS JOIN LATERAL (
    SELECT t.*, greatest(t.n_live_tup, c.reltuples)::bigint AS live FROM pg_stat_all_tables AS t WHERE t.relid = c.oid
) AS s
CROSS JOIN LATERAL (
    SELECT sum(p.avg_width * (1 - p.null_frac)) + 28 AS width, coalesce((
        SELECT split_part(o, '=', 2)::integer FROM unnest(c.reloptions) AS o WHERE o LIKE 'fillfactor=%%'), 100) AS fill
    FROM pg_stats AS p
    WHERE p.schemaname = s.schemaname AND p.tablename = s.relname
) AS w
WHERE c.relname LIKE 'pgqueue\\_%%' AND c.relkind = 'r' AND NOT c.relispartition AND pg_table_is_visible(c.oid)
ORDER BY c.relname
"""
INDEXES = """
SELECT i.indexrelname::text, pg_relation_size(i.indexrelid), greatest(s.n_live_tup, c.reltuples)::bigint
FROM pg_stat_all_indexes AS i
JOIN pg_stat_all_tables AS s ON s.relid = i.relid
JOIN pg_class AS c ON c.oid = i.relid
WHERE c.relname LIKE 'pgqueue\\_%%' AND NOT c.relispartition AND pg_table_is_visible(c.oid)
    AND pg_relation_size(i.indexrelid) > %s
ORDER BY i.indexrelname
"""
BUSY = """
SELECT count(*), current_setting('autovacuum_max_workers')::integer
FROM pg_stat_activity AS a WHERE a.backend_type = 'autovacuum worker'
"""
# Bytes of an index entry, with room for half-full pages and wide keys.
ENTRY_BYTES = 100
# A table with many updates is normally twice as large as it must be.
TOO_LARGE_FACTOR = 4


def examine_storage(using: str, limits: Limits) -> Iterator[Finding]:
    """Report tables and indexes with dead rows, empty space or old rows."""
    busy, workers = call(using, BUSY)[0]
    for table, live, dead, occupied, age, vacuumed_at, needed in call(using, TABLES):
        if dead > limits.dead_rows:
            yield dead_rows(table, live, dead, vacuumed_at, busy=busy >= workers, limits=limits)
        if needed is not None and occupied > limits.bloat_bytes and occupied > TOO_LARGE_FACTOR * needed:
            yield bloated("table", table, occupied, needed)
        if age > limits.freeze_age:
            yield old_rows(table, age, limits)
    for index, occupied, live in call(using, INDEXES, (limits.bloat_bytes,)):
        if occupied > TOO_LARGE_FACTOR * live * ENTRY_BYTES:
            yield bloated("index", index, occupied, live * ENTRY_BYTES)


def dead_rows(table: str, live: int, dead: int, vacuumed_at: datetime | None, *, busy: bool, limits: Limits) -> Finding:
    """Report a table with many dead rows."""
    when = f"vacuumed last at {vacuumed_at:%Y-%m-%d %H:%M:%S %Z}" if vacuumed_at else "never vacuumed"
    action = (
        "Look for what keeps them: manage.py pgqueue doctor --only horizon. If nothing does, VACUUM the table, and "
        "check its autovacuum settings: manage.py pgqueue doctor --only vacuum."
    )
    if busy:
        action = f"All autovacuum workers are busy: raise autovacuum_max_workers, or VACUUM {table} yourself."
    return Finding(
        "dead_rows",
        Severity.CRITICAL if dead > 10 * limits.dead_rows else Severity.WARNING,
        f"{table} has about {dead:,} dead rows beside {live:,} live ones, and was {when}.",
        action,
        {"table": table, "dead": dead, "live": live, "vacuumed_at": vacuumed_at and vacuumed_at.isoformat()},
    )


def bloated(kind: str, name: str, occupied: int, needed: int) -> Finding:
    """Report a table or an index that occupies much more than it needs."""
    action = f"REINDEX INDEX CONCURRENTLY {name}"
    if kind == "table":
        action = f"The table reuses the space. To return it to the disk, VACUUM FULL {name}, which locks the table."
    return Finding(
        f"{kind}_bloat",
        Severity.NOTE,
        f"The {kind} {name} occupies {size_text(occupied)}, and needs about {size_text(needed)}.",
        action,
        {kind: name, "bytes": occupied, "needed_bytes": needed},
    )


def old_rows(table: str, age: int, limits: Limits) -> Finding:
    """Report a table whose rows are not frozen in time."""
    return Finding(
        "freeze_late",
        Severity.CRITICAL if age > 2 * limits.freeze_age else Severity.WARNING,
        f"{table} has rows of {age:,} transactions ago that are not frozen; at 2 billion PostgreSQL refuses writes.",
        f"Find what blocks autovacuum (old transactions, slots), then VACUUM (FREEZE) {table}.",
        {"table": table, "transactions": age},
    )
