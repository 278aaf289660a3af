"""Prepare the statements that a session repeats: the server parses and plans each of them only once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

# How often a session runs a statement before it is prepared.
PREPARE_THRESHOLD = 1


def prepare_statements(connection: BaseDatabaseWrapper) -> None:
    """Prepare the statements of the sessions that this connection opens from now on, except behind a pooler.

    It is for a thread's own connection that runs the same few statements, not for handlers. Options of the project for
    prepared statements win.
    """
    options = connection.settings_dict["OPTIONS"]
    if "prepare_threshold" in options:
        return
    # Prepared statements have their parameters on the server.
    options["server_side_binding"] = True
    connect: Callable[[dict[str, Any]], psycopg.Connection[Any]] = connection.get_new_connection

    def get_new_connection(parameters: dict[str, Any]) -> psycopg.Connection[Any]:
        session = connect(parameters)
        session.autocommit = True
        try:
            if is_direct(session):
                session.prepare_threshold = PREPARE_THRESHOLD
        except psycopg.Error:
            session.close()
            raise
        return session

    connection.get_new_connection = get_new_connection  # type: ignore[method-assign, assignment]  # for this session alone


def is_direct(session: psycopg.Connection[Any]) -> bool:
    """Return whether the client talks to the server itself. A pooler names another process id than the server.

    A transaction pooler lends a session for one transaction only, and knows neither its prepared statements nor LISTEN.
    """
    return session.execute("SELECT pg_backend_pid()").fetchone() == (session.info.backend_pid,)
