"""A producer's session prepares the statements that it repeats, unless a pooler lends it, and runs them directly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.sql.prepared import is_direct, prepare_statements
from django_pgqueue.sql.repeated import RepeatedStatement
from django_pgqueue.worker.database import dedicate_connection, without_pool
from tests.support.sql import sql
from tests.worker.pooler import transaction_pooler

Open = Callable[..., BaseDatabaseWrapper]


@pytest.fixture
def opened(transactional_db: None) -> Iterator[Open]:
    """Connections that prepare statements: `opened(prepare_threshold=None)`."""
    found: list[BaseDatabaseWrapper] = []

    def open_connection(**options: Any) -> BaseDatabaseWrapper:
        connection = without_pool(connections["default"])
        connection.settings_dict["OPTIONS"] |= options
        prepare_statements(connection)
        found.append(connection)
        return connection

    yield open_connection
    for connection in found:
        connection.close()


def prepared(connection: BaseDatabaseWrapper) -> int:
    """Return how many statements the session has prepared after it ran one of them three times."""
    with connection.cursor() as cursor:
        for number in range(3):
            cursor.execute("SELECT %s::integer", [number])
            assert cursor.fetchone() == (number,)
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        return int(cursor.fetchone()[0])


def test_a_statement_that_is_repeated_is_prepared(opened: Open) -> None:
    connection = opened()
    assert prepared(connection) == 1
    assert connection.get_autocommit()
    connection.close()
    assert prepared(connection) == 1, "also in the next session"


def test_the_projects_own_choice_holds(opened: Open) -> None:
    assert prepared(opened(prepare_threshold=None)) == 0


def test_a_session_that_a_pooler_lends_prepares_nothing(opened: Open, pg_url: str) -> None:
    with transaction_pooler(pg_url) as url:
        host, port = url.rsplit("@", 1)[-1].split("/")[0].split(":")
        connection = opened()
        connection.settings_dict |= {"HOST": host, "PORT": port}
        assert prepared(connection) == 0
        assert not is_direct(connection.connection)
        connection.close()


def test_other_connections_prepare_nothing(transactional_db: None) -> None:
    before = connections["default"]
    connection = dedicate_connection("default")
    try:
        assert prepared(connection) == 0
    finally:
        connection.close()
        connections["default"] = before
    assert sql("SELECT name FROM pg_prepared_statements WHERE name NOT LIKE 'pgqueue_%%'") == []


NUMBERS = "SELECT n::bigint, 'é' || n, $2::text FROM generate_series(1, $1::integer) AS n"
NAMES = "SELECT name FROM pg_prepared_statements"


@pytest.fixture
def repeating(opened: Open) -> Iterator[BaseDatabaseWrapper]:
    """The connection "default" of this thread, as a producer has it."""
    before, connections["default"] = connections["default"], opened()
    yield connections["default"]
    connections["default"] = before


def test_a_repeated_statement_is_prepared_in_each_session(repeating: BaseDatabaseWrapper) -> None:
    numbers = RepeatedStatement("numbers", NUMBERS)
    for _ in range(2):
        for count in (2, 0, 1):
            rows = [(number, f"é{number}", None) for number in range(1, count + 1)]
            assert numbers.rows("default", (str(count), None)) == rows
        assert numbers.rows("default", ("1", "x'\\")) == [(1, "é1", "x'\\")]
        assert ("numbers",) in sql(NAMES)
        repeating.close()


def test_a_repeated_statement_prepares_nothing_where_the_project_forbids_it(opened: Open) -> None:
    before, connections["default"] = connections["default"], opened(prepare_threshold=None)
    try:
        assert RepeatedStatement("numbers", NUMBERS).rows("default", ("1", "x")) == [(1, "é1", "x")]
        assert sql(NAMES) == []
    finally:
        connections["default"] = before


def test_a_repeated_statement_raises_what_every_statement_raises(repeating: BaseDatabaseWrapper) -> None:
    with pytest.raises(InvalidMessage, match="a value cannot be stored"):
        RepeatedStatement("numbers", NUMBERS).rows("default", ("many", None))
    with pytest.raises(DatabaseError, match="does not exist"):
        RepeatedStatement("nowhere", "SELECT FROM nowhere").rows("default", ())
    assert RepeatedStatement("one", "SELECT 1").rows("default", ()) == [(1,)]


def test_a_repeated_statement_notices_that_its_session_is_gone(repeating: BaseDatabaseWrapper) -> None:
    pid = RepeatedStatement("pid", "SELECT pg_backend_pid()")
    [[first]] = pid.rows("default", ())
    with without_pool(connections["default"]).cursor() as other:
        other.execute("SELECT pg_terminate_backend(%s)", [first])
        other.connection.close()
    with pytest.raises(OperationalError):
        pid.rows("default", ())
    assert repeating.errors_occurred
    repeating.close()
    assert pid.rows("default", ()) != [(first,)]
