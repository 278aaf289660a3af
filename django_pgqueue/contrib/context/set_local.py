"""Set settings of PostgreSQL for each handler from the context of its channel, for row level security.

The setting SET_LOCAL names them: ``{"app.tenant": "tenant"}``. Headers set only the keys of SET_LOCAL_HEADERS, because
every producer chooses them. Nothing is ever set for a session, so no value can remain for the next message, whatever
happens, or for another client of a transaction pooler. In an ``atomic`` handler, they are set for its transaction, and
reset before the message is settled. In any other handler, each statement sets them for itself (``SELECT set_config(…,
true); SELECT …`` in one round trip), in sync and async code and in all threads of ``sync_to_async``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg import ClientCursor
from psycopg.sql import SQL, Composable, Literal

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerError
from django_pgqueue.sql.call import alias, call

# MATERIALIZED makes sure that the old value is read first.
SET = """
WITH old AS MATERIALIZED (
    SELECT u.name, u.value, current_setting(u.name, true) AS before
    FROM unnest(%s::text[], %s::text[]) AS u (name, value)
)
SELECT name, before, set_config(name, value, true) FROM old
"""
RESET = "SELECT set_config(u.name, u.value, true) FROM unnest(%s::text[], %s::text[]) AS u (name, value)"


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Hold the values to set. ``done_on``: the session whose transaction has them already."""

    values: Mapping[str, str]
    done_on: psycopg.Connection[Any] | None


_wanted: ContextVar[LocalSettings | None] = ContextVar("pgqueue_set_local", default=None)


class Restore:
    """Set the values around a handler, as a middleware. Its settings are read when they are needed."""

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(settings.SET_LOCAL.values())

    @contextmanager
    def __call__(self, delivery: Delivery) -> Iterator[None]:
        values = {name: setting_text(name, key, delivery) for name, key in settings.SET_LOCAL.items()}
        if not values:
            yield
            return
        connection = connections[alias(None)]
        if connection.in_atomic_block:
            with wanted(values, done_on=connection.connection), transaction_has(connection, values):
                yield
        else:
            bring_along(connection=connection)
            with wanted(values, done_on=None):
                yield


restore = Restore()


def setting_text(name: str, key: str, delivery: Delivery) -> str:
    """Return the setting's value as PostgreSQL takes it. Without one, a setting of the project's own gets ''.

    Raises HandlerError if the channel has no value for a setting of PostgreSQL (``role``): the worker's own value would
    give it more rights.
    """
    value = delivery.channel_context.get(key)
    if key in settings.SET_LOCAL_HEADERS:
        value = delivery.headers.get(key, value)
    if value is None and "." not in name:
        raise HandlerError(
            f"The context of the channel {delivery.channel!r} has no {key!r}.",
            hint=f"SET_LOCAL needs it for PostgreSQL's setting {name!r}; channel_set(context=…) writes it.",
        )
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


@contextmanager
def wanted(values: Mapping[str, str], *, done_on: psycopg.Connection[Any] | None) -> Iterator[None]:
    """Use these values for the statements of this context."""
    before = _wanted.set(LocalSettings(values, done_on))
    try:
        yield
    finally:
        _wanted.reset(before)


@contextmanager
def transaction_has(connection: BaseDatabaseWrapper, values: Mapping[str, str]) -> Iterator[None]:
    """Set the values for the open transaction, and reset them afterwards."""
    names = list(values)
    before = [row[1] or "" for row in call(connection.alias, SET, [names, list(values.values())])]
    yield
    # After an exception the transaction is rolled back, which resets the values.
    call(connection.alias, RESET, [names, before])


def bring_along(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    """Make each statement of the connection set the values."""
    if connection.vendor != "postgresql":
        return
    if statement_brings not in connection.execute_wrappers:
        # First, because Django removes other wrappers from the end.
        connection.execute_wrappers.insert(0, statement_brings)
    if (session := connection.connection) is not None:
        session.cursor_factory = bringing(session.cursor_factory)
        session.server_cursor_factory = bringing(session.server_cursor_factory)


# For connections of other threads, and for connections that are opened while a handler runs.
connection_created.connect(bring_along)


def statement_brings(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Set the values together with a statement; Django calls this for each statement of a connection."""
    now, connection = _wanted.get(), context["connection"]
    session = connection.connection
    if now is None or session is now.done_on:
        return execute(sql, params, many, context)
    cursor = context["cursor"].cursor
    if many or not isinstance(cursor, ClientCursor):
        # The values in a statement of their own: for server-side cursors, and parameters that the server binds.
        with connection.wrap_database_errors, set_apart(session), wanted(now.values, done_on=session):
            return execute(sql, params, many, context)
    if isinstance(sql, Composable):
        sql = sql.as_string(session)
    prefix = set_statement(now.values, session)
    if params is not None:
        prefix = prefix.replace("%", "%%")
    with wanted(now.values, done_on=session):
        answer = execute(f"{prefix}; {sql}", params, many, context)
    cursor.nextset()
    return answer


def set_statement(values: Mapping[str, str], session: psycopg.Connection[Any]) -> str:
    """Return the statement that sets the values until the end of its transaction."""
    calls = SQL(", ").join(SQL("set_config({}, {}, true)").format(*map(Literal, item)) for item in values.items())
    return f"SELECT {calls.as_string(session)}"


@contextmanager
def set_apart(session: psycopg.Connection[Any]) -> Iterator[None]:
    """Set the values for the open transaction, or for one around the code inside, unless the session has them."""
    now = _wanted.get()
    if now is None or session is now.done_on:
        yield
        return
    with session.transaction() if session.autocommit else nullcontext():
        ClientCursor(session).execute(set_statement(now.values, session))
        yield


class BringingCursor:
    """Set the values for what Django's wrappers do not see: COPY, streams, procedures, and cursors of psycopg's own."""

    connection: psycopg.Connection[Any]

    def execute(self, *given: Any, **options: Any) -> Any:
        """Run a statement with the values."""
        with set_apart(self.connection):
            return super().execute(*given, **options)  # type: ignore[misc]  # the base that bringing() adds has it

    def executemany(self, *given: Any, **options: Any) -> Any:
        """Run a statement for each set of parameters, with the values."""
        with set_apart(self.connection):
            return super().executemany(*given, **options)  # type: ignore[misc]  # the base that bringing() adds has it

    def stream(self, *given: Any, **options: Any) -> Iterator[Any]:
        """Yield the rows of a statement that has the values, as they arrive."""
        with set_apart(self.connection):
            yield from super().stream(*given, **options)  # type: ignore[misc]  # the base that bringing() adds has it

    @contextmanager
    def copy(self, *given: Any, **options: Any) -> Iterator[Any]:
        """Run a COPY with the values."""
        with set_apart(self.connection), super().copy(*given, **options) as copy:  # type: ignore[misc]  # as above
            yield copy


@cache
def bringing(factory: type) -> type:
    """Return the class of cursors whose statements set the values."""
    return factory if issubclass(factory, BringingCursor) else type(factory.__name__, (BringingCursor, factory), {})
