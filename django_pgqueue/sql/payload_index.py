"""Build the optional indexes for the search of payloads: GIN, created and removed while the queue works.

CONCURRENTLY does not work in transactions, nor for partitioned tables: the archive first gets an empty index of its
own, then each partition gets one, which is attached. Later partitions get theirs when they are created.
"""

from __future__ import annotations

from collections.abc import Iterator

from django_pgqueue.sql.call import call

TABLES = ("message", "archived_message", "dead_letter")
ARCHIVE = "archived_message"
HOW = "USING gin (payload jsonb_path_ops)"
# A statement that waits for a strong lock blocks all sessions behind it, so it waits only shortly.
SHORT_LOCK_TIMEOUT = "SET lock_timeout = '2s'"
# With CONCURRENTLY a statement blocks no session, and leaves an invalid index if it gives up: it waits without limit.
NO_LOCK_TIMEOUT = "RESET lock_timeout"

USABLE = """
SELECT i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(%s) AND c.relname = %s
"""
# Each partition: whether its index with the name that is built here is valid, and whether any index of it is attached.
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
    """Return whether the payloads of this table can be searched, because its index exists and is valid."""
    return call(using, USABLE, (f"pgqueue_{table}", f"pgqueue_{table}_payload")) == [(True,)]


def create_statements(table: str, using: str) -> Iterator[str]:
    """Yield the statements that build the index of ``table``, which is one of TABLES.

    Each has to be run before the next is taken, outside of a transaction. An index that an earlier try left invalid is
    built again.
    """
    if table != ARCHIVE:
        if not is_usable(table, using):
            yield from _build(f"pgqueue_{table}")
        return
    yield SHORT_LOCK_TIMEOUT
    yield f"CREATE INDEX IF NOT EXISTS pgqueue_{table}_payload ON ONLY pgqueue_{table} {HOW}"
    for partition, is_whole, is_attached in call(using, PARTITIONS):
        if is_attached:
            continue
        if not is_whole:
            yield from _build(partition)
        yield SHORT_LOCK_TIMEOUT
        yield f"ALTER INDEX pgqueue_{table}_payload ATTACH PARTITION {partition}_payload"
    yield NO_LOCK_TIMEOUT


def _build(table: str) -> Iterator[str]:
    yield NO_LOCK_TIMEOUT
    yield f"DROP INDEX CONCURRENTLY IF EXISTS {table}_payload"
    yield f"CREATE INDEX CONCURRENTLY {table}_payload ON {table} {HOW}"


def drop_statements(table: str) -> Iterator[str]:
    """Yield the statements that remove the index of ``table``, to be run outside of a transaction."""
    if table == ARCHIVE:
        yield SHORT_LOCK_TIMEOUT
        yield f"DROP INDEX IF EXISTS pgqueue_{table}_payload"
    yield NO_LOCK_TIMEOUT
    if table != ARCHIVE:
        yield f"DROP INDEX CONCURRENTLY IF EXISTS pgqueue_{table}_payload"
