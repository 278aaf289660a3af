"""The opt-in indexes for the search of payloads: GIN, made and removed while the queue works.

CONCURRENTLY is not for transactions, and not for partitioned tables: the archive gets an empty index of its own first,
then each partition one of its own, which is attached. Partitions that come later bring theirs along.
"""

from __future__ import annotations

from collections.abc import Iterator

from django_pgqueue.sql.call import call

TABLES = ("message", "archived_message", "dead_letter")
ARCHIVE = "archived_message"
HOW = "USING gin (payload jsonb_path_ops)"
# What waits for a lock is in the way of everybody behind it.
IMPATIENT = "SET lock_timeout = '2s'"
# What works CONCURRENTLY is in nobody's way, and is half done when it gives up: it waits for every old transaction.
PATIENT = "RESET lock_timeout"

USABLE = """
SELECT i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(%s) AND c.relname = %s
"""
# A partition's index by our name, whether it is whole; and whether the partition has one that is attached, by any name.
PARTITIONS = """
SELECT p.relname::text,
    EXISTS (
        SELECT FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        WHERE i.indrelid = p.oid AND c.relname = p.relname || '_payload' AND i.indisvalid),
    EXISTS (
        SELECT FROM pg_index AS i JOIN pg_inherits AS a ON a.inhrelid = i.indexrelid
        WHERE i.indrelid = p.oid AND a.inhparent = to_regclass('pgqueue_archived_message_payload'))
FROM pg_inherits AS h
JOIN pg_class AS p ON p.oid = h.inhrelid
WHERE h.inhparent = to_regclass('pgqueue_archived_message')
ORDER BY p.relname
"""


def is_usable(table: str, using: str) -> bool:
    """Whether the payloads of this table can be searched: its index is there, and whole."""
    return call(using, USABLE, (f"pgqueue_{table}", f"pgqueue_{table}_payload")) == [(True,)]


def create(table: str, using: str) -> Iterator[str]:
    """Statements, to be run one by one outside of a transaction. What a former try has left half done is done anew."""
    if table != ARCHIVE:
        if not is_usable(table, using):
            yield from _build(f"pgqueue_{table}")
        return
    yield IMPATIENT
    yield f"CREATE INDEX IF NOT EXISTS pgqueue_{table}_payload ON ONLY pgqueue_{table} {HOW}"
    for partition, is_whole, is_attached in call(using, PARTITIONS):
        if is_attached:
            continue
        if not is_whole:
            yield from _build(partition)
        yield IMPATIENT
        yield f"ALTER INDEX pgqueue_{table}_payload ATTACH PARTITION {partition}_payload"
    yield PATIENT


def _build(table: str) -> Iterator[str]:
    yield PATIENT
    yield f"DROP INDEX CONCURRENTLY IF EXISTS {table}_payload"
    yield f"CREATE INDEX CONCURRENTLY {table}_payload ON {table} {HOW}"


def drop(table: str) -> Iterator[str]:
    if table == ARCHIVE:
        yield IMPATIENT
        yield f"DROP INDEX IF EXISTS pgqueue_{table}_payload"
    yield PATIENT
    if table != ARCHIVE:
        yield f"DROP INDEX CONCURRENTLY IF EXISTS pgqueue_{table}_payload"
