"""Make the tables of the live messages UNLOGGED, so that a crash of the server empties them, or logged again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connections

from django_pgqueue.sql.call import call

MESSAGE = "pgqueue_message"
IDS = "pgqueue_message_id_seq"
# They become UNLOGGED in this order, and logged again in reverse, each in a transaction of its own: a transaction that
# locked two of them would deadlock with enqueuers and dequeuers. A crash in between must not leave messages whose
# arrivals and lanes are lost, because no dequeue would find them: so the messages are the first to be lost.
# Why these, and no others: docs/explanation/decisions/unlogged-live-tables.md.
LIVE = (
    MESSAGE, "pgqueue_arrival", "pgqueue_lane", "pgqueue_gate", "pgqueue_gate_side", "pgqueue_channel_size",
    "pgqueue_departure", "pgqueue_waiter",
)  # fmt: skip

FOUND = """
SELECT c.relname::text, c.relpersistence = 'u'
FROM pg_class AS c
WHERE c.relname LIKE 'pgqueue\\_%%' AND c.relname NOT LIKE 'pgqueue\\_stage\\_%%' AND c.relkind IN ('r', 'S')
    AND pg_table_is_visible(c.oid)
ORDER BY c.relname
"""
SIZE = "SELECT u.name, pg_total_relation_size(u.name::regclass) FROM unnest(%s::text[]) AS u (name)"
HOLDERS = """
SELECT a.pid, coalesce(nullif(a.application_name, ''), a.backend_type), coalesce(a.usename::text, '?'),
    coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::float8
FROM pg_locks AS l
JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.relation = %s::regclass
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
ORDER BY a.xact_start
LIMIT 3
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """Hold a session that uses a table. ``seconds``: the time since its transaction began."""

    pid: int
    application: str
    user: str
    seconds: float


def unlogged_by_table(using: str) -> dict[str, bool]:
    """Return for each table and sequence of the queue, by name, whether it is UNLOGGED. It waits for no lock.

    The stages of bulk enqueues are left out, because they always are.
    """
    return dict(call(using, FOUND))


def table_sizes(using: str, tables: list[str]) -> dict[str, int]:
    """Return the sizes in bytes, with indexes. It waits for transactions that change the tables."""
    return dict(call(using, SIZE, (tables,)))


def pending_tables(found: dict[str, bool], *, unlogged: bool) -> list[str]:
    """Return the tables that have to be rewritten, in the order in which :func:`rewrite_table` may be called.

    ``found``: the answer of :func:`unlogged_by_table`. ``unlogged``: what the tables are to become.
    """
    wrong = {name for name in LIVE if found[name] != unlogged}
    if found[IDS]:
        wrong.add(MESSAGE)
    return [name for name in (LIVE if unlogged else reversed(LIVE)) if name in wrong]


def rewrite_table(using: str, table: str, *, unlogged: bool, lock_timeout: float) -> float:
    """Rewrite the table in a transaction of its own. Returns for how many seconds it was locked.

    ``lock_timeout``: seconds to wait for the lock; other sessions wait behind this one meanwhile.
    """
    with connections[using].schema_editor(atomic=True) as editor:
        editor.execute(f"SET LOCAL lock_timeout = {max(1, round(lock_timeout * 1000))}", params=None)
        # No timeout: a cancelled rewrite would have to begin again.
        editor.execute("SET LOCAL statement_timeout = 0", params=None)
        editor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE", params=None)
        began = time.monotonic()
        for statement in rewrite_statements(table, unlogged=unlogged):
            editor.execute(statement, params=None)
    return time.monotonic() - began


def rewrite_statements(table: str, *, unlogged: bool) -> Iterator[str]:
    """Yield the statements that make a table UNLOGGED or logged; the table of messages has more of them."""
    yield f"ALTER TABLE {table} SET {'UNLOGGED' if unlogged else 'LOGGED'}"
    if table == MESSAGE:
        # The sequence follows its table. UNLOGGED, it would give ids again after a crash that the archive has.
        yield f"ALTER SEQUENCE {IDS} SET LOGGED"
        # The rewritten sequence relies on values that the log of its old file had reserved: reserve them again.
        yield "SELECT setval('pgqueue_message_id_seq', s.last_value, s.is_called) FROM pgqueue_message_id_seq AS s"


def table_holders(using: str, table: str) -> list[Holder]:
    """Return up to three sessions whose transactions use the table, the oldest first."""
    return [Holder(*row) for row in call(using, HOLDERS, (table,))]
