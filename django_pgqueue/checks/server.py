"""Check the server, and the tables: settings and storage that lose messages, or that slow them down."""

from __future__ import annotations

from collections.abc import Iterator

from django_pgqueue.checks.rules import CRITICAL, WARNING, Limits, Row, Rule
from django_pgqueue.sql.call import call

OLDEST_MAJOR = 15

SETTINGS = """
SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
    current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
    current_setting('synchronous_commit'),
    current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean,
    current_setting('default_transaction_isolation'), current_setting('session_replication_role')
"""
# The tables of the live messages, which an operator may make UNLOGGED (docs/how-to/durability.md). The arrivals, lanes,
# gates, counts and waiters mean nothing without their messages, and the functions make them anew. No other table may be
# emptied by a crash: it has settled messages, configuration, ids, or bounds that the functions rely on.
MESSAGE = "pgqueue_message"
LIVE = (
    MESSAGE, "pgqueue_arrival", "pgqueue_lane", "pgqueue_gate", "pgqueue_gate_side", "pgqueue_channel_size",
    "pgqueue_departure", "pgqueue_waiter",
)  # fmt: skip
UNLOGGED = """
SELECT c.relname::text FROM pg_class AS c
WHERE c.relname LIKE 'pgqueue\\_%%' AND c.relname NOT LIKE 'pgqueue\\_stage\\_%%' AND c.relkind IN ('r', 'S')
    AND c.relpersistence = 'u' AND pg_table_is_visible(c.oid)
ORDER BY c.relname
"""
# The days without a partition: today, tomorrow, and those that maintenance makes ahead. The first prune after midnight
# makes the partition of the last day, and may be late.
DAYS = """
SELECT CASE d.ahead WHEN 0 THEN 'pgqueue.W014' WHEN 1 THEN 'pgqueue.W015' ELSE 'partitions_behind' END AS code,
    count(*) AS days, array_agg(d.day::text ORDER BY d.day) AS missing, min(d.day)::text AS day
FROM (
    SELECT least(n.ahead, 2) AS ahead, (clock_timestamp() AT TIME ZONE 'UTC')::date + n.ahead AS day
    FROM generate_series(0, greatest(1, %(partitions)s - 1)) AS n (ahead)
) AS d
WHERE NOT EXISTS (
    SELECT FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass('pgqueue_archived_message')
        AND (c.relname = 'pgqueue_archived_message_' || to_char(d.day, 'YYYYMMDD')
            OR pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT'))
GROUP BY d.ahead
ORDER BY d.ahead
"""
NEGLECTED = """
SELECT string_agg(c.relname, ', ' ORDER BY c.relname) AS tables, min(c.relname::text) AS first
FROM pg_class AS c
WHERE c.relname LIKE 'pgqueue\\_%%' AND c.relname NOT LIKE 'pgqueue\\_stage\\_%%' AND c.relkind = 'r'
    AND pg_table_is_visible(c.oid) AND 'autovacuum_enabled=false' = ANY (c.reloptions)
HAVING count(*) > 0
"""
OPEN_SCHEMA = """
SELECT quote_ident(n.nspname) AS schema FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass('pgqueue_message') AND has_schema_privilege('public', n.oid, 'CREATE')
"""
# PostgreSQL refuses an UPDATE or a DELETE of a published table that has no replica identity, or whose identity has
# columns that the publication leaves out.
UNIDENTIFIED = """
SELECT c.relname::text AS table, string_agg(p.pubname::text, ', ' ORDER BY p.pubname) AS publications,
    CASE WHEN EXISTS (SELECT FROM pg_index AS k WHERE k.indrelid = c.oid AND k.indisprimary)
        THEN 'DEFAULT' ELSE 'FULL' END AS identity
FROM pg_publication_tables AS t
JOIN pg_publication AS p ON p.pubname = t.pubname AND (p.pubupdate OR p.pubdelete)
JOIN pg_namespace AS n ON n.nspname = t.schemaname
JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = t.tablename
CROSS JOIN LATERAL (
    SELECT array_agg(a.attname) AS columns FROM pg_attribute AS a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND (c.relreplident = 'f' OR EXISTS (
        SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey)
            AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END))
) AS identity
WHERE c.relname LIKE 'pgqueue\\_%%' AND pg_table_is_visible(c.oid) AND identity.columns <@ t.attnames IS NOT TRUE
GROUP BY c.oid, c.relname ORDER BY c.relname
"""


def server_settings(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the settings of the server that are wrong."""
    [(number, version, fsync, page_writes, synchronous_commit, autovacuum, level, role)] = call(using, SETTINGS)
    wrong = {
        "pgqueue.E010": number < OLDEST_MAJOR * 10_000,
        "pgqueue.W010": not fsync,
        "pgqueue.W011": not page_writes,
        "pgqueue.W012": synchronous_commit == "off",
        "pgqueue.W013": not autovacuum,
        "pgqueue.W028": level != "read committed",
        "pgqueue.E028": role != "origin",
    }
    row = {"version": version, "oldest": OLDEST_MAJOR, "level": level, "role": role}
    yield from (row | {"code": code} for code, is_wrong in wrong.items() if is_wrong)


def unlogged(using: str, limits: Limits) -> Iterator[Row]:
    """Yield tables that are UNLOGGED: those of the live messages, and others that must never be."""
    found = [name for (name,) in call(using, UNLOGGED)]
    # If a crash spares the messages, it must spare their lanes and arrivals, too.
    chosen = LIVE if MESSAGE in found else ()
    if chosen:
        yield {"code": "pgqueue.W016"}
    if strays := [name for name in found if name not in chosen]:
        kind = "SEQUENCE" if strays[0].endswith("_seq") else "TABLE"
        yield {"code": "pgqueue.W019", "strays": ", ".join(strays), "change": f"ALTER {kind} {strays[0]}"}


PRUNE = "Run manage.py sweepqueue, or SELECT pgqueue_prune(); running workers do it by themselves."
# fmt: off
SERVER = (
    Rule("pgqueue.E010", CRITICAL, server_settings, "",
        "The server of database {database!r} is PostgreSQL {version}; the queue needs {oldest} or newer.",
        "Upgrade the server."),
    Rule("pgqueue.W010", WARNING, server_settings, "",
        "The server of database {database!r} runs with fsync = off: a crash of the machine can lose or corrupt every "
        "message and the whole cluster.",
        "Set fsync = on in postgresql.conf and reload. The value off is for throw-away data only."),
    Rule("pgqueue.W011", WARNING, server_settings, "",
        "The server of database {database!r} runs with full_page_writes = off: a crash in the middle of a page write "
        "can corrupt tables without a trace, messages among them.",
        "Set full_page_writes = on in postgresql.conf and reload."),
    Rule("pgqueue.W012", WARNING, server_settings, "",
        "Database {database!r} is used with synchronous_commit = off: a crash of the server loses messages whose "
        "enqueue was confirmed a moment before, and repeats ones that were completed.",
        "Set synchronous_commit = on for the role or database of the queue; SET LOCAL it to off where you can afford "
        "the loss."),
    Rule("pgqueue.W013", WARNING, server_settings, "",
        "The server of database {database!r} runs without autovacuum: the message table grows for ever and every verb "
        "gets slower.",
        "Set autovacuum = on and track_counts = on in postgresql.conf and reload."),
    Rule("pgqueue.W028", WARNING, server_settings, "",
        "Transactions on database {database!r} are {level} by default (default_transaction_isolation): workers set "
        "read committed on their own sessions, but a dequeue or pop in another session is refused, and so is a worker "
        "behind a transaction pooler.",
        "ALTER ROLE … SET default_transaction_isolation = 'read committed' for the roles that dequeue."),
    Rule("pgqueue.E028", CRITICAL, server_settings, "",
        "Sessions on database {database!r} have session_replication_role = {role}, which switches triggers off: "
        "messages that they enqueue, and limits that they change, are not noticed.",
        "Reset it for the role or database; set it in the session that needs it."),
)
TABLES = (
    # Only a warning for a new project, which does not enqueue yet. In use it stops the queue.
    Rule("pgqueue.W014", CRITICAL, DAYS, "",
        "The archive in database {database!r} has no partition for today ({day}): nothing can be completed.", PRUNE),
    Rule("pgqueue.W015", WARNING, DAYS, "",
        "The archive in database {database!r} has no partition for tomorrow ({day}).", PRUNE),
    Rule("pgqueue.W016", WARNING, unlogged, "",
        "The live messages in database {database!r} are UNLOGGED: a crash of the server loses every message that is "
        "ready, leased or scheduled, and a standby never has them.",
        'The how-to page "Live messages that a crash may lose" has the statements that make them durable. If the loss '
        "is accepted, silence this check."),
    Rule("pgqueue.W019", WARNING, unlogged, "",
        "These tables in database {database!r} are UNLOGGED and must not be: {strays}. A crash of the server empties "
        "them: it loses settled messages, gives ids twice, or leaves messages waiting for ever.",
        "{change} SET LOGGED; and so on for each."),
    Rule("pgqueue.W017", WARNING, NEGLECTED, "",
        "Autovacuum is switched off in database {database!r} for {tables}: they grow for ever and every verb gets "
        "slower.",
        "ALTER TABLE {first} RESET (autovacuum_enabled); and so on for each."),
    Rule("pgqueue.W018", WARNING, OPEN_SCHEMA, "",
        "Every role may create objects in the schema {schema:raw} of database {database!r}, where the functions of the "
        "queue look for tables, functions and operators: a role that can connect can run code as their owner.",
        "REVOKE CREATE ON SCHEMA {schema:raw} FROM PUBLIC (as new clusters do since PostgreSQL 15)."),
    Rule("pgqueue.E029", CRITICAL, UNIDENTIFIED, "",
        "The publication {publications} of database {database!r} has the table {table} and not its replica identity: "
        "PostgreSQL refuses to change its rows. Messages are enqueued, and the queue stands still.",
        "ALTER TABLE {table} REPLICA IDENTITY {identity}, and publish all of its columns; or leave the tables of the "
        "queue out of the publication."),
)
# fmt: on
