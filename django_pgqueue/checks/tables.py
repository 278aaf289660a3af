"""Check the tables: the archive's partitions, and storage that loses messages or is never vacuumed."""

from __future__ import annotations

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from django_pgqueue.sql.call import call

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
PARTITIONS = """
SELECT d.name, d.day::date::text
FROM (
    SELECT w.name, (clock_timestamp() AT TIME ZONE 'UTC')::date + w.days AS day
    FROM (VALUES ('today', 0), ('tomorrow', 1)) AS w (name, days)
) AS d
WHERE NOT EXISTS (
    SELECT FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass('pgqueue_archived_message')
        AND (c.relname = 'pgqueue_archived_message_' || to_char(d.day, 'YYYYMMDD')
            OR pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT'))
ORDER BY d.day
"""
NEGLECTED = """
SELECT c.relname::text FROM pg_class AS c
WHERE c.relname LIKE 'pgqueue\\_%%' AND c.relname NOT LIKE 'pgqueue\\_stage\\_%%' AND c.relkind = 'r'
    AND pg_table_is_visible(c.oid) AND 'autovacuum_enabled=false' = ANY (c.reloptions)
ORDER BY c.relname
"""
OPEN_SCHEMA = """
SELECT quote_ident(n.nspname) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass('pgqueue_message') AND has_schema_privilege('public', n.oid, 'CREATE')
"""
# PostgreSQL refuses an UPDATE or a DELETE of a published table that has no replica identity, or whose identity has
# columns that the publication leaves out.
UNIDENTIFIED = """
SELECT c.relname::text, string_agg(p.pubname::text, ', ' ORDER BY p.pubname),
    CASE WHEN EXISTS (SELECT FROM pg_index AS k WHERE k.indrelid = c.oid AND k.indisprimary)
        THEN 'DEFAULT' ELSE 'FULL' END
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


def table_messages(database: str) -> list[CheckMessage]:
    """Return the problems of the tables."""
    return [
        *check_partitions(database),
        *check_durability(database),
        *check_vacuum(database),
        *check_schema(database),
        *check_publications(database),
    ]


def check_partitions(database: str) -> list[CheckMessage]:
    """Return a warning if the archive has no partition for today or tomorrow."""
    prune = "Run manage.py sweepqueue, or SELECT pgqueue_prune(); running workers do it by themselves."
    messages: list[CheckMessage] = []
    for day, date in call(database, PARTITIONS):
        if day == "today":
            problem = (
                f"The archive in database {database!r} has no partition for today ({date}): nothing can be completed."
            )
            messages.append(Caution(problem, hint=prune, id="pgqueue.W014"))
        else:
            problem = f"The archive in database {database!r} has no partition for tomorrow ({date})."
            messages.append(Caution(problem, hint=prune, id="pgqueue.W015"))
    return messages


def check_durability(database: str) -> list[CheckMessage]:
    """Return a warning for tables that are UNLOGGED: those of the live messages, and others that must never be."""
    unlogged = [name for (name,) in call(database, UNLOGGED)]
    messages: list[CheckMessage] = []
    # If a crash spares the messages, it must spare their lanes and arrivals, too.
    chosen = LIVE if MESSAGE in unlogged else ()
    if chosen:
        messages.append(
            Caution(
                f"The live messages in database {database!r} are UNLOGGED: a crash of the server loses every message "
                "that is ready, leased or scheduled, and a standby never has them.",
                hint='The how-to page "Live messages that a crash may lose" has the statements that make them durable. '
                "If the loss is accepted, silence this check.",
                id="pgqueue.W016",
            )
        )
    if strays := [name for name in unlogged if name not in chosen]:
        messages.append(
            Caution(
                f"These tables in database {database!r} are UNLOGGED and must not be: {', '.join(strays)}. A crash of "
                "the server empties them: it loses settled messages, gives ids twice, or leaves messages waiting for "
                "ever.",
                hint=f"ALTER {'SEQUENCE' if strays[0].endswith('_seq') else 'TABLE'} {strays[0]} SET LOGGED; and so on "
                "for each.",
                id="pgqueue.W019",
            )
        )
    return messages


def check_vacuum(database: str) -> list[CheckMessage]:
    """Return a warning for tables without autovacuum."""
    neglected = [name for (name,) in call(database, NEGLECTED)]
    if not neglected:
        return []
    return [
        Caution(
            f"Autovacuum is switched off in database {database!r} for {', '.join(neglected)}: they grow for ever and "
            "every verb gets slower.",
            hint=f"ALTER TABLE {neglected[0]} RESET (autovacuum_enabled); and so on for each.",
            id="pgqueue.W017",
        )
    ]


def check_schema(database: str) -> list[CheckMessage]:
    """Return a warning if every role may create objects in the queue's schema."""
    return [
        Caution(
            f"Every role may create objects in the schema {schema} of database {database!r}, where the functions of "
            "the queue look for tables, functions and operators: a role that can connect can run code as their owner.",
            hint=f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC (as new clusters do since PostgreSQL 15).",
            id="pgqueue.W018",
        )
        for (schema,) in call(database, OPEN_SCHEMA)
    ]


def check_publications(database: str) -> list[CheckMessage]:
    """Return an error for tables that a publication keeps from being changed."""
    return [
        Error(
            f"The publication {publications} of database {database!r} has the table {table} and not its replica "
            "identity: PostgreSQL refuses to change its rows. Messages are enqueued, and the queue stands still.",
            hint=f"ALTER TABLE {table} REPLICA IDENTITY {identity}, and publish all of its columns; or leave the "
            "tables of the queue out of the publication.",
            id="pgqueue.E029",
        )
        for table, publications, identity in call(database, UNIDENTIFIED)
    ]
