"""The tables of the live messages, which a crash of the server may empty if somebody has chosen that: UNLOGGED."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connections

from django_pgqueue.sql.call import call

MESSAGE = "pgqueue_message"
IDS = "pgqueue_message_id_seq"
# They become UNLOGGED in this order, and logged again the other way round, each in a transaction of its own: who locked
# two of them would wait in a circle with enqueuers and dequeuers. A crash in between must not leave messages whose
# arrivals and lanes are gone, because nobody would find them: so the messages are the first to be lost.
# Why these, and no others: docs/explanation/decisions/unlogged-live-tables.md.
LIVE = (
    MESSAGE, "pgqueue_arrival", "pgqueue_lane", "pgqueue_channel_size", "pgqueue_departure", "pgqueue_waiter",
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
    """A session that uses a table. ``seconds``: since its transaction began."""

    pid: int
    application: str
    user: str
    seconds: float


def find(using: str) -> dict[str, bool]:
    """Whether each table and sequence of the queue is UNLOGGED, but for the stages of bulk enqueues: they always are.

    Waits for nobody.
    """
    return dict(call(using, FOUND))


def sizes(using: str, tables: list[str]) -> dict[str, int]:
    """In bytes, with indexes. Waits for who changes them."""
    return dict(call(using, SIZE, (tables,)))


def pending(found: dict[str, bool], *, unlogged: bool) -> list[str]:
    """The tables that ``change`` has to go through, in its order. ``found``: as ``find`` tells."""
    wrong = {name for name in LIVE if found[name] != unlogged}
    if found[IDS]:
        wrong.add(MESSAGE)
    return [name for name in (LIVE if unlogged else reversed(LIVE)) if name in wrong]


def change(using: str, table: str, *, unlogged: bool, lock_timeout: float) -> float:
    """Write the table anew, in a transaction of its own. Returns for how many seconds nobody else could use it.

    ``lock_timeout``: seconds that it waits for others to let go of it, while who comes later waits behind it.
    """
    with connections[using].schema_editor(atomic=True) as editor:
        editor.execute(f"SET LOCAL lock_timeout = {max(1, round(lock_timeout * 1000))}", params=None)
        # However long it takes: half of it would have been for nothing.
        editor.execute("SET LOCAL statement_timeout = 0", params=None)
        editor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE", params=None)
        began = time.monotonic()
        for statement in statements(table, unlogged=unlogged):
            editor.execute(statement, params=None)
    return time.monotonic() - began


def statements(table: str, *, unlogged: bool) -> Iterator[str]:
    yield f"ALTER TABLE {table} SET {'UNLOGGED' if unlogged else 'LOGGED'}"
    if table == MESSAGE:
        # It went along with its table. After a crash it would give ids again that the archive has.
        yield f"ALTER SEQUENCE {IDS} SET LOGGED"
        # Written anew, it still counts on values that the log of its old file had reserved: reserve them again.
        yield "SELECT setval('pgqueue_message_id_seq', s.last_value, s.is_called) FROM pgqueue_message_id_seq AS s"


def holders(using: str, table: str) -> list[Holder]:
    """Whose transactions use the table, the oldest first."""
    return [Holder(*row) for row in call(using, HOLDERS, (table,))]
