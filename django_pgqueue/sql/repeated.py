"""Run one statement again and again, by the least code there is between Python and the server.

After a pause the processor has to fetch all code and data from memory again, so each layer costs several times what a
benchmark without pauses shows: of the 0.6 ms that a look at a queue took after 50 ms, Django's and psycopg's cursors
took 0.3 ms. A worker that is woken for one message pays that before its handler starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from django.db import DatabaseError, connections
from psycopg.adapt import Transformer

from django_pgqueue.sql.call import raise_known
from django_pgqueue.sql.libpq import answer_of, prepare


class RepeatedStatement:
    """Hold a statement for a connection that one thread keeps, outside of transactions.

    ``name``: of the prepared statement; unique for its session. ``sql``: with ``$1`` for each parameter, and a cast for
    each. It is prepared where the session prepares statements (:mod:`django_pgqueue.sql.prepared`). Query logs and
    ``execute_wrapper`` do not see it.
    """

    def __init__(self, name: str, sql: str) -> None:
        self._name = name.encode()
        self._sql = sql.encode()
        self._session: psycopg.Connection[Any] | None = None
        self._prepared = False
        self._transformer = Transformer()

    def rows(self, using: str, parameters: Sequence[str | None]) -> list[tuple[Any, ...]]:
        """Run the statement on the connection ``using`` of this thread, and return its rows.

        ``parameters``: as PostgreSQL reads them from text. Raises the errors that :func:`~django_pgqueue.sql.call.call`
        raises.
        """
        connection = connections[using]
        connection.ensure_connection()
        session = connection.connection
        given = [None if parameter is None else parameter.encode() for parameter in parameters]
        try:
            with connection.wrap_database_errors, session.lock:
                if session is not self._session:
                    self._open(session)
                if self._prepared:
                    session.pgconn.send_query_prepared(self._name, given)
                else:
                    session.pgconn.send_query_params(self._sql, given)
                return answer_of(session, self._transformer)
        except DatabaseError as error:
            raise_known(error, using)

    def _open(self, session: psycopg.Connection[Any]) -> None:
        self._session, self._prepared = None, False
        if session.prepare_threshold is not None:
            prepare(session, self._name, self._sql)
            self._prepared = True
        self._session, self._transformer = session, Transformer(session)
