"""Guard: a module of tests ends the sessions on the test database that it began.

A session that is left behind, by a thread, a pool or an orphaned process, holds locks while the next module empties its
tables, and the test database cannot be dropped: PostgreSQL waits five seconds for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import psycopg
import pytest
from django.conf import settings
from django.db import connections
from django.test import TransactionTestCase

from tests.support.tables import flush

# Seconds: the server notices late that a killed client is gone, if it is at work and the machine has much else to do.
PATIENCE_SECONDS = 60
# Autovacuum gives way when the database is dropped.
OTHERS = """
SELECT pid, application_name, state, wait_event, backend_start, left(query, 300) AS query FROM pg_stat_activity
WHERE datname = %s AND NOT pid = ANY(%s) AND backend_type NOT LIKE 'autovacuum%%'
ORDER BY pid
"""
READY = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def django_db_setup(request: pytest.FixtureRequest, django_db_setup: None) -> Iterator[None]:
    """Makes the flush after a test cheap. Looks once more before the test database is dropped: by then the fixtures of
    all modules have ended."""
    request.config.stash[READY] = True
    with mock.patch.object(TransactionTestCase, "_fixture_teardown", flush):
        yield
    request.config.stash[READY] = False
    refuse_others("A fixture that several modules use")


@pytest.fixture(scope="module", autouse=True)
def sessions_of_a_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails where a module leaves sessions on the test database, and ends them."""
    yield
    if request.config.stash.get(READY, False):
        refuse_others(request.node.nodeid)


def refuse_others(whose: str) -> None:
    """Fail where sessions stay on the test database, and end them, so that it can be dropped."""
    if left := wait_for_others():
        end(left)
        pytest.fail(f"{whose} leaves sessions on the test database:\n{described(left)}", pytrace=False)


def wait_for_others() -> list[dict[str, Any]]:
    """Wait until no session but Django's own of this thread is on the test database.

    Returns the sessions that are left.
    """
    with server() as session:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (left := others(session)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left


def wait_for_statements(seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until no other session on the test database runs a statement or a transaction.

    A page that a server still builds, or a statement of a worker that has just ended, takes its locks in another order
    than Django's flush, which empties all tables at the end of a test: one of the two would die of the deadlock.
    """
    with server() as session:
        deadline = time.monotonic() + seconds
        while any(each["state"] != "idle" for each in others(session)) and time.monotonic() < deadline:
            time.sleep(0.02)


def server() -> psycopg.Connection[dict[str, Any]]:
    """Return a session on another database of the server."""
    parameters = {**connections["default"].get_connection_params(), "dbname": "postgres"}
    return psycopg.connect(**parameters, autocommit=True, row_factory=psycopg.rows.dict_row)


def others(session: psycopg.Connection[dict[str, Any]]) -> list[dict[str, Any]]:
    own = [each.connection.info.backend_pid for each in connections.all() if is_open(each)]
    return session.execute(OTHERS, (settings.DATABASES["default"]["NAME"], own)).fetchall()


def is_open(connection: Any) -> bool:
    return connection.vendor == "postgresql" and connection.connection is not None and not connection.connection.closed


def end(left: list[dict[str, Any]]) -> None:
    with server() as session:
        pids = [each["pid"] for each in left]
        session.execute("SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s::integer[]) AS pid", (pids,))


def described(left: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"  {each['application_name'] or 'no name'}, pid {each['pid']}, {each['state']}, {each['wait_event']},"
        f" since {each['backend_start']:%H:%M:%S}: {each['query']}"
        for each in left
    )
