"""Check the server: its version, and settings that trade messages for speed."""

from __future__ import annotations

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from django_pgqueue.sql.call import call

OLDEST_MAJOR = 15

SQL = """
SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
    current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
    current_setting('synchronous_commit'),
    current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean,
    current_setting('default_transaction_isolation'), current_setting('session_replication_role')
"""


def server_messages(database: str) -> list[CheckMessage]:
    """Return the problems of the server."""
    number, version, fsync, full_page_writes, synchronous_commit, autovacuum, level, role = call(database, SQL)[0]
    messages: list[CheckMessage] = []
    if number < OLDEST_MAJOR * 10_000:
        messages.append(
            Error(
                f"The server of database {database!r} is PostgreSQL {version}; the queue needs {OLDEST_MAJOR} "
                "or newer.",
                hint="Upgrade the server.",
                id="pgqueue.E010",
            )
        )
    if not fsync:
        messages.append(
            Caution(
                f"The server of database {database!r} runs with fsync = off: a crash of the machine can lose "
                "or corrupt every message and the whole cluster.",
                hint="Set fsync = on in postgresql.conf and reload. The value off is for throw-away data only.",
                id="pgqueue.W010",
            )
        )
    if not full_page_writes:
        messages.append(
            Caution(
                f"The server of database {database!r} runs with full_page_writes = off: a crash in the middle of a "
                "page write can corrupt tables without a trace, messages among them.",
                hint="Set full_page_writes = on in postgresql.conf and reload.",
                id="pgqueue.W011",
            )
        )
    if synchronous_commit == "off":
        messages.append(
            Caution(
                f"Database {database!r} is used with synchronous_commit = off: a crash of the server loses messages "
                "whose enqueue was confirmed a moment before, and repeats ones that were completed.",
                hint="Set synchronous_commit = on for the role or database of the queue; SET LOCAL it to off where you "
                "can afford the loss.",
                id="pgqueue.W012",
            )
        )
    if not autovacuum:
        messages.append(
            Caution(
                f"The server of database {database!r} runs without autovacuum: the message table grows for ever and "
                "every verb gets slower.",
                hint="Set autovacuum = on and track_counts = on in postgresql.conf and reload.",
                id="pgqueue.W013",
            )
        )
    if level != "read committed":
        messages.append(
            Caution(
                f"Transactions on database {database!r} are {level} by default (default_transaction_isolation): "
                "workers set read committed on their own sessions, but a dequeue or pop in another session is refused, "
                "and so is a worker behind a transaction pooler.",
                hint="ALTER ROLE … SET default_transaction_isolation = 'read committed' for the roles that dequeue.",
                id="pgqueue.W028",
            )
        )
    if role != "origin":
        messages.append(
            Error(
                f"Sessions on database {database!r} have session_replication_role = {role}, which switches triggers "
                "off: messages that they enqueue, and limits that they change, are not noticed.",
                hint="Reset it for the role or database; set it in the session that needs it.",
                id="pgqueue.E028",
            )
        )
    return messages
