"""Find the horizon of an export: all transactions below it have ended and are durable."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from django_pgqueue.spark.source import only

# A younger transaction is not reported.
OLD = timedelta(minutes=1)

SNAPSHOT = """
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, clock_timestamp(), pg_is_in_recovery()
"""
HOLDERS = """
SELECT 'pid ' || a.pid || concat(', user ' || a.usename, ', application ' || nullif(a.application_name, ''),
    ', database ' || a.datname), a.xact_start, age(a.backend_xid)
FROM pg_stat_activity AS a WHERE a.backend_xid IS NOT NULL
UNION ALL
SELECT format('the prepared transaction %L, user %s, database %s', p.gid, p.owner, p.database), p.prepared,
    age(p.transaction)
FROM pg_prepared_xacts AS p
ORDER BY 3 DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Horizon:
    """The point up to which an export may read.

    Every transaction below ``xid`` has ended. No transaction from ``next_xid`` on had begun at ``now``, by the
    database's clock. A standby does not know ``next_xid``.
    """

    xid: int
    next_xid: int | None
    now: datetime


@dataclass(frozen=True, slots=True)
class HorizonHolder:
    """A transaction that holds the horizon back."""

    who: str
    since: datetime


def read_horizon(connection: psycopg.Connection[Any]) -> Horizon:
    """Return the present horizon. On a primary, the transactions below it are also on the server's disk."""
    xid, now, standby = only(connection.execute(SNAPSHOT))
    # The snapshot's xmax does not serve here: transactions above it may run already.
    return Horizon(xid, None if standby else _barrier(connection), now)


def _barrier(connection: psycopg.Connection[Any]) -> int:
    """Commit a transaction above the horizon, and wait until it is on disk. Returns its number.

    With synchronous_commit = off a crash would take back transactions that the export has seen, and give their numbers
    to others, which no export would read.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION READ WRITE")
        connection.execute("SET LOCAL synchronous_commit = on")
        sql = "SELECT pg_current_xact_id()::text::bigint, pg_logical_emit_message(true, 'pgqueue', 'export')"
        xid: int = only(connection.execute(sql))[0]
    return xid


def find_holder(connection: psycopg.Connection[Any], horizon: Horizon) -> HorizonHolder | None:
    """Return the transaction that has held the horizon back for over a minute, or None.

    A role without pg_read_all_stats sees only its own sessions.
    """
    row = connection.execute(HOLDERS).fetchone()
    if row is None or row[1] is None or horizon.now - row[1] < OLD:
        return None
    return HorizonHolder(row[0], row[1])
