"""Up to where an export may read: transactions below the horizon are over, and will not be forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from django_pgqueue.spark.fetch import only

# A younger transaction is no reason to speak of it.
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
    """Every transaction below ``xid`` is over, and none from ``next_xid`` on had begun ``now``, by the database's
    clock. A standby does not know ``next_xid``."""

    xid: int
    next_xid: int | None
    now: datetime


@dataclass(frozen=True, slots=True)
class HorizonHolder:
    """A transaction that holds the horizon back."""

    who: str
    since: datetime


def read_horizon(connection: psycopg.Connection[Any]) -> Horizon:
    """The present horizon; what is below it is on disk of the server, too."""
    xid, now, standby = only(connection.execute(SNAPSHOT))
    # Not the snapshot's xmax: transactions above it may run already.
    return Horizon(xid, None if standby else _barrier(connection), now)


def _barrier(connection: psycopg.Connection[Any]) -> int:
    """Commit a transaction of our own above the horizon, and wait until it is on disk. Returns its number.

    With synchronous_commit = off a crash would take back transactions that the export has seen, and give their numbers
    to others, which no export would look at.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION READ WRITE")
        connection.execute("SET LOCAL synchronous_commit = on")
        sql = "SELECT pg_current_xact_id()::text::bigint, pg_logical_emit_message(true, 'pgqueue', 'export')"
        xid: int = only(connection.execute(sql))[0]
    return xid


def find_holder(connection: psycopg.Connection[Any], horizon: Horizon) -> HorizonHolder | None:
    """Who holds the horizon back for over a minute. A role without pg_read_all_stats sees only its own sessions."""
    row = connection.execute(HOLDERS).fetchone()
    if row is None or row[1] is None or horizon.now - row[1] < OLD:
        return None
    return HorizonHolder(row[0], row[1])
