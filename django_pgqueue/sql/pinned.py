"""Give sessions the settings that they need, where the server, the database or the role has others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

LEVEL = "SELECT current_setting('default_transaction_isolation'), pg_backend_pid()"
SET_LEVEL = "SET default_transaction_isolation = 'read committed'"
NEEDS_ROLE = (
    "default_transaction_isolation is {}, and a worker needs read committed, which it cannot set behind a transaction "
    "pooler: ALTER ROLE … SET default_transaction_isolation = 'read committed', for the role of the worker"
)


def pin_settings(connection: BaseDatabaseWrapper) -> None:
    """Give the sessions that this connection opens from now on READ COMMITTED, and times in ISO 8601.

    It is for a thread's own connection, not for one in a pool. A transaction pooler lends a session for one transaction
    only, so another level would reach other clients: opening raises OperationalError, which says what to set.
    """
    connect: Callable[[dict[str, Any]], psycopg.Connection[Any]] = connection.get_new_connection

    def get_new_connection(parameters: dict[str, Any]) -> psycopg.Connection[Any]:
        session = connect(parameters)
        try:
            session.autocommit = True
            session.isolation_level = None
            level, pid = session.execute(LEVEL).fetchone() or ("", 0)
            if level != "read committed":
                if pid != session.info.backend_pid:
                    raise psycopg.OperationalError(NEEDS_ROLE.format(level))
                session.execute(SET_LEVEL)
            pin_date_style(session)
        except psycopg.Error:
            session.close()
            raise
        return session

    connection.get_new_connection = get_new_connection  # type: ignore[method-assign, assignment]  # for this session alone


def pin_date_style(session: psycopg.Connection[Any]) -> None:
    """Write times in ISO 8601, the only style that psycopg reads. The server tells its style, so this costs nothing
    where it is the usual one."""
    if not (session.info.parameter_status("DateStyle") or "ISO").startswith("ISO"):
        session.execute("SET datestyle = ISO")
