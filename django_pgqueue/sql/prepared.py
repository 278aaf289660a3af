"""Send the statements that a session repeats prepared and by libpq; every other statement goes by Django's cursor.

Parsing and planning a call of a function with 19 parameters takes the server a quarter of the time of the call, and the
cursors of Django and psycopg take the client two thirds of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql import base
from psycopg import abc, generators
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import InvalidSqlStatementName
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus

from django_pgqueue.sql.call import call, raise_known

# How often a session runs a statement by a cursor before it is prepared: many sessions end after one request.
BY_CURSOR = 2
# Marks of a session that has prepared the statement, and of one that never does.
PREPARED, NEVER = BY_CURSOR + 1, -1
PLAIN_CURSORS: tuple[object, ...] = (base.Cursor, base.ServerBindingCursor)


class PreparedStatement:
    """Hold a statement that runs inside and outside of transactions, on any connection.

    ``name``: of the prepared statement; no other statement has it. ``sql``: with ``%s`` and a cast for each parameter.
    A session prepares it at its third run, unless it leads to a pooler or has an option ``prepare_threshold``. Where
    statements are watched (``DEBUG``, ``execute_wrapper``, other cursors than Django's), they all go by the cursor.
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
        """Run the statement on the connection ``using`` of this thread, and return its rows.

        Raises the errors that :func:`~django_pgqueue.sql.call.call` raises.
        """
        connection = connections[using]
        connection.close_if_health_check_failed()
        connection.ensure_connection()
        session = connection.connection
        runs = self._runs.get(session, 0)
        if runs >= BY_CURSOR and may_pass(connection, session):
            try:
                if runs == PREPARED or self._prepare(connection, session):
                    return self._run(connection, session, parameters)
            except (DatabaseError, ValueError, OverflowError) as error:
                if not isinstance(error.__cause__, InvalidSqlStatementName):
                    raise_known(error, using)
                # Other code has sent DEALLOCATE ALL. An open transaction is broken by the error, and the next one
                # prepares the statement anew; outside of transactions it runs once more here.
                runs = self._runs[session] = 0
                if connection.in_atomic_block or not session.autocommit:
                    raise
        if 0 <= runs < BY_CURSOR:
            self._runs[session] = runs + 1
        return call(using, self._sql, parameters)

    def _prepare(self, connection: BaseDatabaseWrapper, session: psycopg.Connection[Any]) -> bool:
        """Prepare the statement. Returns False, and never tries again, where a session must not do that."""
        with connection.wrap_database_errors:
            if "prepare_threshold" in connection.settings_dict["OPTIONS"] or not is_direct(session):
                self._runs[session] = NEVER
                return False
            with session.lock:
                session.pgconn.send_prepare(self._name, self._numbered)
                answer_of(session, Transformer(session))
        self._runs[session] = PREPARED
        return True

    def _run(
        self, connection: BaseDatabaseWrapper, session: psycopg.Connection[Any], parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        connection.validate_thread_sharing()
        connection.validate_no_broken_transaction()
        with connection.wrap_database_errors, session.lock:
            transformer = Transformer(session)
            given = transformer.dump_sequence(parameters, self._formats)
            session.pgconn.send_query_prepared(self._name, given, transformer.formats)
            return answer_of(session, transformer)


def may_pass(connection: BaseDatabaseWrapper, session: psycopg.Connection[Any]) -> bool:
    """Return whether a statement can be sent without a cursor: nothing has to see it, and BEGIN has been sent, which
    only the cursor does."""
    if connection.execute_wrappers or connection.queries_logged:
        return False
    if type(session) is not psycopg.Connection or session.cursor_factory not in PLAIN_CURSORS:
        return False
    if session.closed or session.pgconn.pipeline_status != PipelineStatus.OFF:
        return False
    return session.autocommit or session.pgconn.transaction_status != TransactionStatus.IDLE


def is_direct(session: psycopg.Connection[Any]) -> bool:
    """Return whether the client talks to the server itself. A pooler names another process id than the server.

    A transaction pooler lends a session for one transaction only, and knows neither its prepared statements nor LISTEN.
    """
    return session.execute("SELECT pg_backend_pid()").fetchone() == (session.info.backend_pid,)


def answer_of(session: psycopg.Connection[Any], transformer: abc.Transformer) -> list[tuple[Any, ...]]:
    """Wait for the answer of the statement that was sent, and return its rows, converted by ``transformer``.

    Raises psycopg's exception of the server's error.
    """
    [result] = session.wait(generators.execute(session.pgconn))
    if result.status == ExecStatus.TUPLES_OK:
        transformer.set_pgresult(result)
        rows: list[tuple[Any, ...]] = transformer.load_rows(0, result.ntuples, tuple)
        return rows
    if result.status == ExecStatus.COMMAND_OK:
        return []
    raise psycopg.errors.error_from_result(result, encoding=session.info.encoding)
