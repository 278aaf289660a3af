"""Examine the server: what keeps dead rows, the storage of the tables, autovacuum, notifications and clocks.

A finding never contains the query of a session, because it may hold secrets.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from django_pgqueue.checks.rules import NOTE, WARNING, Limits, Row, Rule
from django_pgqueue.sql import files
from django_pgqueue.sql.call import call

COST = "rows that died since then cannot be cleaned up"
# VACUUM has a snapshot, but does not keep dead rows. A role without the right to see other roles' sessions gets no
# times of them: those sessions are only counted.
SESSIONS = """
WITH holders AS MATERIALIZED (
    SELECT a.pid, a.usename::text AS "user", a.application_name, a.state, a.xact_start AS since,
        extract(epoch FROM clock_timestamp() - a.xact_start) AS seconds,
        greatest(age(a.backend_xmin), age(a.backend_xid)) AS transactions
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
        AND coalesce(a.backend_type, '') NOT IN ('autovacuum worker', 'walsender', 'parallel worker')
        AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
        AND a.pid NOT IN (SELECT v.pid FROM pg_stat_progress_vacuum AS v)
        AND (a.xact_start IS NULL OR a.xact_start < clock_timestamp() - %(old_transaction)s::interval)
    ORDER BY a.xact_start NULLS LAST
    LIMIT %(most)s
)
SELECT 'old_transaction' AS code, h.*, to_char(h.since, 'YYYY-MM-DD HH24:MI:SS TZ') AS begun, NULL AS sessions,
    CASE WHEN h.seconds > extract(epoch FROM %(very_old_transaction)s::interval) THEN 2 ELSE 1 END AS severity
FROM holders AS h WHERE h.since IS NOT NULL
UNION ALL
SELECT 'sessions_hidden', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, count(*), 0
FROM holders AS h WHERE h.since IS NULL HAVING count(*) > 0
"""
PREPARED = """
SELECT p.gid, p.owner::text AS "user", p.prepared AS since, age(p.transaction) AS transactions,
    to_char(p.prepared, 'YYYY-MM-DD HH24:MI:SS TZ') AS begun,
    extract(epoch FROM clock_timestamp() - p.prepared) AS seconds,
    CASE WHEN p.prepared < clock_timestamp() - %(very_old_transaction)s::interval THEN 2 ELSE 1 END AS severity
FROM pg_prepared_xacts AS p
WHERE p.database = current_database() AND p.prepared < clock_timestamp() - %(old_transaction)s::interval
ORDER BY p.prepared
LIMIT %(most)s
"""
SLOTS = """
SELECT r.code, s.slot_name::text AS slot, s.active, CASE WHEN s.active THEN 'active' ELSE 'inactive' END AS state,
    age(s.xmin) AS transactions, k.bytes
FROM pg_replication_slots AS s
CROSS JOIN LATERAL (SELECT pg_wal_lsn_diff(
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, s.restart_lsn
)::bigint AS bytes) AS k
CROSS JOIN LATERAL (VALUES
    ('slot_behind', age(s.xmin) > %(old_xids)s),
    ('slot_left', NOT s.active AND k.bytes > %(slot_bytes)s)
) AS r (code, is_found)
WHERE r.is_found
ORDER BY s.slot_name
LIMIT %(most)s
"""
STANDBYS = """
SELECT a.pid, a.usename::text AS "user", a.application_name, age(a.backend_xmin) AS transactions
FROM pg_stat_activity AS a
WHERE a.backend_type = 'walsender' AND age(a.backend_xmin) > %(old_xids)s
ORDER BY age(a.backend_xmin) DESC
LIMIT %(most)s
"""
# From the server's statistics alone. A table with many updates is normally twice as large as it must be.
TABLES = """
SELECT r.code, r.severity, c.relname::text AS table, s.live, s.n_dead_tup AS dead, age(c.relfrozenxid) AS transactions,
    pg_relation_size(c.oid) AS bytes, w.needed AS needed_bytes, s.vacuumed_at,
    coalesce('vacuumed last at ' || to_char(s.vacuumed_at, 'YYYY-MM-DD HH24:MI:SS TZ'), 'never vacuumed') AS history,
    CASE WHEN b.is_busy
        THEN 'All autovacuum workers are busy: raise autovacuum_max_workers, or VACUUM ' || c.relname || ' yourself.'
        ELSE 'Look for what keeps them: manage.py pgqueue doctor --only horizon. If nothing does, VACUUM the table, '
            'and check its autovacuum settings: manage.py pgqueue doctor --only vacuum.'
    END AS remedy
FROM pg_class AS c
CROSS JOIN LATERAL (
    SELECT t.*, greatest(t.n_live_tup, c.reltuples)::bigint AS live,
        greatest(t.last_autovacuum, t.last_vacuum) AS vacuumed_at
    FROM pg_stat_all_tables AS t WHERE t.relid = c.oid
) AS s
CROSS JOIN LATERAL (
    SELECT CASE s.live WHEN 0 THEN 0 ELSE s.live * (sum(p.avg_width * (1 - p.null_frac)) + 28)::bigint * 100
        / coalesce((SELECT split_part(o, '=', 2)::integer FROM unnest(c.reloptions) AS o WHERE o LIKE 'fillfactor=%%'),
            100) END AS needed
    FROM pg_stats AS p
    WHERE p.schemaname = s.schemaname AND p.tablename = s.relname
) AS w
CROSS JOIN (
    SELECT count(*) >= current_setting('autovacuum_max_workers')::integer AS is_busy
    FROM pg_stat_activity AS a WHERE a.backend_type = 'autovacuum worker'
) AS b
CROSS JOIN LATERAL (VALUES
    ('dead_rows', s.n_dead_tup > %(dead_rows)s, CASE WHEN s.n_dead_tup > 10 * %(dead_rows)s::bigint THEN 2 ELSE 1 END),
    ('table_bloat', pg_relation_size(c.oid) > greatest(%(bloat_bytes)s, 4 * w.needed) AND w.needed IS NOT NULL, 0),
    ('freeze_late', age(c.relfrozenxid) > %(freeze_age)s,
        CASE WHEN age(c.relfrozenxid) > 2 * %(freeze_age)s::bigint THEN 2 ELSE 1 END)
) AS r (code, is_found, severity)
WHERE c.relname LIKE 'pgqueue\\_%%' AND c.relkind = 'r' AND NOT c.relispartition AND pg_table_is_visible(c.oid)
    AND r.is_found
ORDER BY c.relname
"""
# An index entry has 100 bytes, with room for half-full pages and wide keys.
INDEXES = """
SELECT n.*
FROM (
    SELECT i.indexrelname::text AS index, pg_relation_size(i.indexrelid) AS bytes,
        100 * greatest(s.n_live_tup, c.reltuples)::bigint AS needed_bytes
    FROM pg_stat_all_indexes AS i
    JOIN pg_stat_all_tables AS s ON s.relid = i.relid
    JOIN pg_class AS c ON c.oid = i.relid
    WHERE c.relname LIKE 'pgqueue\\_%%' AND NOT c.relispartition AND pg_table_is_visible(c.oid)
) AS n
WHERE n.bytes > greatest(%(bloat_bytes)s, 4 * n.needed_bytes)
ORDER BY n.index
"""
OPTIONS = """
SELECT c.relname::text, coalesce(c.reloptions, '{}')
FROM pg_class AS c
WHERE c.relname = ANY (%s::text[]) AND pg_table_is_visible(c.oid)
ORDER BY c.relname
"""
NAPTIME = """
SELECT n.seconds FROM (SELECT extract(epoch FROM current_setting('autovacuum_naptime')::interval) AS seconds) AS n
WHERE n.seconds > 60
"""
SET_LATER = re.compile(r"ALTER TABLE (\w+) SET \((.*?)\);", re.DOTALL)
AT_ONCE = re.compile(r"CREATE TABLE (\w+) \((?:(?!;).)*?\n\) WITH \((.*?)\);", re.DOTALL)
NOTIFICATIONS = """
SELECT u.usage, CASE WHEN u.usage > 5 * %(notify_usage)s THEN 2 ELSE 1 END AS severity
FROM pg_notification_queue_usage() AS u (usage) WHERE u.usage > %(notify_usage)s
"""
WENT_BACK = """
SELECT extract(epoch FROM f.ahead) AS seconds
FROM (SELECT max(f.ticked_at) - clock_timestamp() AS ahead FROM pgqueue_floor AS f) AS f
WHERE f.ahead > %(clock)s::interval
"""


def expected_options() -> dict[str, dict[str, str]]:
    """Return the storage options of each table, as the SQL files set them."""
    found: dict[str, dict[str, str]] = {}
    for path in files.file_paths("tables"):
        text = path.read_text(encoding="utf-8")
        for pattern in (AT_ONCE, SET_LATER):
            for table, options in pattern.findall(text):
                found[table] = dict(re.findall(r"(\w+) = ([\w.]+)", options))
    return found


def other_options(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the tables whose storage options are not the expected ones."""
    wanted = expected_options()
    for table, options in call(using, OPTIONS, (list(wanted),)):
        there = dict(option.split("=", 1) for option in options)
        expected = {key: value for key, value in wanted[table].items() if there.get(key) != value}
        if expected:
            yield {
                "table": table, "expected": expected, "found": {key: there.get(key) for key in expected},
                "changed": ", ".join(f"{k} is {there.get(k, 'not set')}, not {v}" for k, v in expected.items()),
                "settings": ", ".join(f"{key} = {value}" for key, value in expected.items()),
            }  # fmt: skip


def other_clock(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the difference of the clocks of this host and of the database. Leases, delays and rates go by the
    database's alone; a wrong clock of a host shows in its logs and in rows that handlers write."""
    before = time.time()
    [(there,)] = call(using, "SELECT extract(epoch FROM clock_timestamp())::float")
    after = time.time()
    # The server read its clock between the two moments, so only the certain part of the difference counts.
    difference = max(before - there, there - after, 0.0)
    if difference > limits.clock.total_seconds():
        side, sign = ("ahead of", 1) if before > there else ("behind", -1)
        yield {"difference": difference, "side": side, "seconds": difference * sign}


# fmt: off
HORIZON = (
    Rule("old_transaction", WARNING, SESSIONS, "pid user application_name state since seconds transactions",
        "Session {pid} of {user} (application {application_name}, {state}) has a transaction open since {begun}, for "
        f"{{seconds:age}}: {COST}.",
        "If it is not needed, end it: SELECT pg_terminate_backend({pid}). Dumps and exports end by themselves."),
    Rule("sessions_hidden", NOTE, SESSIONS, "sessions",
        "{sessions} session(s) of other roles have a transaction open; this role may not see since when.",
        "GRANT pg_read_all_stats TO the role that runs the doctor."),
    Rule("prepared_transaction", WARNING, PREPARED, "gid user since seconds transactions",
        f"The prepared transaction {{gid!r}} of {{user}} waits since {{begun}}, for {{seconds:age}}: {COST}, and it "
        "keeps its locks, also over a restart.",
        "Let its transaction manager end it. If that is gone, run COMMIT PREPARED or ROLLBACK PREPARED with the name."),
    Rule("slot_behind", WARNING, SLOTS, "slot active transactions",
        f"The replication slot {{slot!r}} is {{state}} and is {{transactions}} transactions behind: {COST}.",
        "End the long query on its standby; if the slot is not needed: SELECT pg_drop_replication_slot('{slot}')."),
    Rule("slot_left", WARNING, SLOTS, "slot bytes",
        "The replication slot {slot!r} is inactive and keeps {bytes:size} of write-ahead log: disks fill up.",
        "Start its consumer again; if the slot is not needed: SELECT pg_drop_replication_slot('{slot}')."),
    Rule("standby_behind", WARNING, STANDBYS, "pid user application_name transactions",
        "The standby {application_name} (session {pid} of {user}) keeps rows that died in the last {transactions} "
        "transactions: a query runs there, and hot_standby_feedback is on.",
        "End the query on the standby, or set max_standby_streaming_delay and hot_standby_feedback there."),
)
STORAGE = (
    Rule("dead_rows", WARNING, TABLES, "table dead live vacuumed_at",
        "{table} has about {dead:,} dead rows beside {live:,} live ones, and was {history}.", "{remedy:raw}"),
    Rule("table_bloat", NOTE, TABLES, "table bytes needed_bytes",
        "The table {table} occupies {bytes:size}, and needs about {needed_bytes:size}.",
        "The table reuses the space. To return it to the disk, VACUUM FULL {table}, which locks the table."),
    Rule("freeze_late", WARNING, TABLES, "table transactions",
        "{table} has rows of {transactions:,} transactions ago that are not frozen; at 2 billion PostgreSQL refuses "
        "writes.",
        "Find what blocks autovacuum (old transactions, slots), then VACUUM (FREEZE) {table}."),
    Rule("index_bloat", NOTE, INDEXES, "index bytes needed_bytes",
        "The index {index} occupies {bytes:size}, and needs about {needed_bytes:size}.",
        "REINDEX INDEX CONCURRENTLY {index}"),
)
VACUUM = (
    Rule("vacuum_settings", NOTE, other_options, "table expected found",
        "The storage settings of {table} are not those of this release: {changed}.",
        "Unless this is intended: ALTER TABLE {table} SET ({settings})"),
    Rule("vacuum_naps", NOTE, NAPTIME, "seconds",
        "autovacuum_naptime is {seconds:.0f} s: dead rows of the line slow each dequeue down for that time.",
        "Set autovacuum_naptime to 1 min or less, and reload."),
)
# When this queue is full, NOTIFY fails, and so does enqueue.
NOTIFY = (
    Rule("notify_queue", WARNING, NOTIFICATIONS, "usage",
        "The server's queue of notifications is {usage:.2%} full: a session that listens has a transaction open. When "
        "it is full, enqueue fails.",
        "End the old transactions of sessions that LISTEN; the server log names one when the queue is half full."),
)
CLOCK = (
    Rule("clock_differs", WARNING, other_clock, "seconds",
        "The clock of this host is {difference:age} {side} the database's.",
        "Synchronise both with NTP. The queue goes by the database's clock."),
    Rule("clock_went_back", WARNING, WENT_BACK, "seconds",
        "The clock of the database has gone back by at least {seconds:age}: leases last longer by that time.",
        "Synchronise it with NTP, so that it is slewed and does not jump."),
)
# fmt: on
