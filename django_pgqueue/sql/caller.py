"""Run a statement on the connection of a caller, in its transaction, and prepare it at its third run in a session.

Parsing and planning a call of a function with 19 parameters takes the server a quarter of the time of the call, and
the cursors of Django and psycopg take the client two thirds of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from django.db import DatabaseError, connections
from django.db.backends import utils
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql import base
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import InvalidSqlStatementName
from psycopg.pq import PipelineStatus, TransactionStatus

from django_pgqueue.sql.call import call, raise_known
from django_pgqueue.sql.libpq import answer_of, prepare

# How often a session runs a statement by a cursor before it is prepared: many sessions end after one request.
BY_CURSOR = 2
# This number of runs marks a session that has prepared the statement.
PREPARED = BY_CURSOR + 1
PLAIN_CURSORS: tuple[object, ...] = (base.Cursor, base.ServerBindingCursor)


class CallerStatement:
    """Hold a statement that callers run on connections of their own, inside and outside of transactions.

    ``name``: of the prepared statement; no other statement has it. ``sql``: with ``%s`` and a cast for each parameter;
    its last column is ``pg_backend_pid()``, which a transaction pooler answers with the id of another process than the
    connection names. It is prepared in the sessions that have run it twice by a cursor, where there is no pooler, no
    option ``prepare_threshold`` and no tool that looks at Django's cursors. Query logs and ``execute_wrapper`` see
    every run, because a connection that has them takes the cursor.
    """

    def __init__(self, name: str, sql: str) -> None:
        self._name = name.encode()
        self._sql = sql
        number = itertools.count(1)
        self._numbered = re.sub("%s", lambda _: f"${next(number)}", sql).encode()
        # The text of bytes depends on standard_conforming_strings in psycopg, which would store them wrong.
        casts = re.findall(r"%s(?:::(\w+))?", sql)
        self._formats = [PyFormat.BINARY if cast == "bytea" else PyFormat.TEXT for cast in casts]
        self._runs: WeakKeyDictionary[psycopg.Connection[Any], int] = WeakKeyDictionary()

    def rows(self, using: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run the statement on the connection ``using`` of this thread, and return its rows without the last column.

        Raises the errors that :func:`~django_pgqueue.sql.call.call` raises.
        """
        connection = connections[using]
        connection.close_if_health_check_failed()
        connection.ensure_connection()
        session = connection.connection
        runs = self._runs.get(session, 0)
        if runs >= BY_CURSOR and may_pass(connection, session):
            try:
                return self._run(connection, session, parameters)
            except (DatabaseError, ValueError, OverflowError) as error:
                if not isinstance(error.__cause__, InvalidSqlStatementName):
                    raise_known(error, using)
                # Other code has sent DEALLOCATE ALL. An open transaction is broken by the error, and the next one
                # prepares the statement anew; outside of transactions it runs once more here.
                runs = self._runs[session] = 0
                if connection.in_atomic_block or not session.autocommit:
                    raise
        rows = call(using, self._sql, parameters)
        if runs < BY_CURSOR and rows[0][-1] == session.info.backend_pid:
            self._runs[session] = runs + 1
        return [row[:-1] for row in rows]

    def _run(
        self, connection: BaseDatabaseWrapper, session: psycopg.Connection[Any], parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        connection.validate_thread_sharing()
        connection.validate_no_broken_transaction()
        with connection.wrap_database_errors, session.lock:
            transformer = Transformer(session)
            given = transformer.dump_sequence(parameters, self._formats)
            if self._runs[session] != PREPARED:
                prepare(session, self._name, self._numbered)
                self._runs[session] = PREPARED
            session.pgconn.send_query_prepared(self._name, given, transformer.formats)
            return [row[:-1] for row in answer_of(session, transformer)]


def may_pass(connection: BaseDatabaseWrapper, session: psycopg.Connection[Any]) -> bool:
    """Return whether a statement can be sent without a cursor.

    It can if no log, wrapper or tracing tool has to see it, the options of the project leave statements alone, and
    BEGIN has been sent, which only the cursor does.
    """
    if connection.execute_wrappers or connection.queries_logged:
        return False
    if "prepare_threshold" in connection.settings_dict["OPTIONS"] or is_watched(session):
        return False
    if session.closed or session.pgconn.pipeline_status != PipelineStatus.OFF:
        return False
    return session.autocommit or session.pgconn.transaction_status != TransactionStatus.IDLE


def is_watched(session: object) -> bool:
    """Return whether a tool that traces or profiles has put itself around the cursors of a session, or of Django."""
    return (
        type(session) is not psycopg.Connection
        or session.cursor_factory not in PLAIN_CURSORS
        or utils.CursorWrapper.execute.__code__.co_filename != utils.__file__
    )
