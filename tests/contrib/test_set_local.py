"""Each kind of statement brings the settings along, and leaves none behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, connection, connections, transaction
from django.test import override_settings
from psycopg.sql import SQL, Identifier

from django_pgqueue.contrib.context.set_local import restore, statement_brings
from django_pgqueue.exceptions import HandlerError
from tests.support.cases import cases
from tests.support.deliveries import DELIVERY

ODD = 'it\'s 100% \\ "odd" %s'
NOW = "SELECT current_setting('app.tenant', true)"


def delivery(**context: Any) -> Any:
    return replace(DELIVERY, channel_context={"tenant": ODD} | context)


@pytest.fixture(autouse=True)
def _setting(transactional_db: None) -> Iterator[None]:
    with override_settings(DJANGO_PGQUEUE={"SET_LOCAL": {"app.tenant": "tenant"}}):
        yield
    connections.close_all()


def rows(statement: Any, params: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchall()


def left() -> Any:
    return rows(NOW)[0][0] or ""


@cases(
    ("statement", "params"),
    [
        (NOW, None),
        (NOW, ()),
        (f"{NOW}, %s", ("50%",)),
        (f"{NOW}, %(a)s", {"a": "50%"}),
        (f"{NOW} WHERE 'a' LIKE '%a'", None),
        (f"{NOW} WHERE 'a' LIKE '%%a'", []),
        (SQL("SELECT current_setting('app.tenant') AS {}").format(Identifier("a")), None),
        (f"{NOW}; SELECT 2", None),
    ],
)
def test_a_statement_has_the_settings_only_while_it_runs(statement: Any, params: Any) -> None:
    with restore(delivery()):
        assert rows(statement, params)[0][0] == ODD
    assert left() == ""


def test_rows_counts_and_errors_are_those_of_the_statement() -> None:
    with restore(delivery()), connection.cursor() as cursor:
        cursor.execute("SELECT a, a AS b FROM generate_series(1, 3) AS a")
        assert [column.name for column in cursor.description] == ["a", "b"]
        assert (cursor.rowcount, len(cursor.fetchall())) == (3, 3)
        cursor.execute("CREATE TEMP TABLE note (body text)")
        cursor.execute("INSERT INTO note VALUES ('a'), ('b')")
        assert cursor.rowcount == 2
        cursor.execute("UPDATE note SET body = current_setting('app.tenant') WHERE body = %s", ["a"])
        assert cursor.rowcount == 1
        with pytest.raises(DatabaseError, match="division by zero"):
            cursor.execute("SELECT 1 / 0")
        cursor.execute("SELECT body FROM note ORDER BY body = 'b'")
        assert cursor.fetchall() == [(ODD,), ("b",)]


@pytest.mark.parametrize("within", [False, True], ids=["autocommit", "transaction"])
def test_many_rows_and_cursors_of_the_server_have_them_too(within: bool) -> None:
    statement = "INSERT INTO auth_group (name) VALUES (left(current_setting('app.tenant'), 4) || %s)"
    with restore(delivery()):
        if within:
            with transaction.atomic():
                found = many(statement)
        else:
            found = many(statement)
    assert found == ["it's1", "it's2"]
    assert left() == ""


def many(statement: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.executemany(statement, [("1",), ("2",)])
    own = Group.objects.extra(where=["left(current_setting('app.tenant', true), 4) = left(name, 4)"])
    return [group.name for group in own.order_by("name").iterator(chunk_size=1)]


def test_a_server_that_binds_parameters_itself_has_them_too() -> None:
    options = connections.settings["default"]["OPTIONS"]
    found: list[Any] = []

    def other_thread() -> None:
        connections["default"].settings_dict["OPTIONS"]["server_side_binding"] = True
        try:
            with restore(delivery()):
                found.append(rows(f"{NOW}, %s::text", ["50%"])[0])
                with transaction.atomic():
                    found.append(rows(f"{NOW}, %s::text", ["50%"])[0])
            found.append(left())
        finally:
            connections.close_all()

    try:
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
    finally:
        options.pop("server_side_binding", None)
    assert found == [(ODD, "50%"), (ODD, "50%"), ""]


def test_a_transaction_has_its_old_values_back_when_the_handler_ends() -> None:
    with transaction.atomic():
        rows("SELECT set_config('app.tenant', 'before', true)")
        with restore(delivery()), connection.connection.cursor() as cursor:  # psycopg's own statements have them too
            assert cursor.execute(NOW).fetchone() == (ODD,)
        assert left() == "before"
    assert left() == ""


def test_an_error_in_a_transaction_is_reported_as_it_is() -> None:
    with pytest.raises(DatabaseError, match="division by zero"), transaction.atomic(), restore(delivery()):
        rows("SELECT 1 / 0")
    assert left() == ""


@cases(("value", "expected"), [(7, "7"), (True, "true"), (None, ""), ({"a": [1]}, '{"a": [1]}'), ("", "")])
def test_values_are_texts(value: Any, expected: str) -> None:
    with restore(delivery(tenant=value)):
        assert rows(NOW)[0][0] == expected


def test_a_header_sets_nothing() -> None:
    with restore(replace(delivery(), headers={"tenant": "other"})):
        assert rows(NOW)[0][0] == ODD
    with restore(replace(DELIVERY, headers={"tenant": "other"})):
        assert rows(NOW)[0][0] == ""


@override_settings(DJANGO_PGQUEUE={"SET_LOCAL": {"app.tenant": "tenant", "role": "role"}})
@pytest.mark.parametrize("headers", [{}, {"role": "pg_monitor"}, {"role": ""}])
def test_a_channel_without_a_role_has_none_whatever_the_headers_say(headers: dict[str, Any]) -> None:
    with (
        pytest.raises(HandlerError, match="channel 'default' has no 'role'"),
        restore(replace(delivery(), headers=headers)),
    ):
        pass


@override_settings(
    DJANGO_PGQUEUE={"SET_LOCAL": {"app.tenant": "tenant", "app.user": "user"}, "SET_LOCAL_HEADERS": ["user"]}
)
def test_a_key_that_headers_may_set_is_the_only_one() -> None:
    with restore(replace(delivery(user="nobody"), headers={"tenant": "other", "user": "ada"})):
        assert rows("SELECT current_setting('app.tenant'), current_setting('app.user')") == [(ODD, "ada")]
    with restore(delivery(user="nobody")):
        assert rows("SELECT current_setting('app.user')") == [("nobody",)]


COPY = "COPY (SELECT current_setting('app.tenant', true)) TO STDOUT"


def copied(cursor: Any) -> str:
    with cursor.copy(COPY) as copy:
        [row] = copy.rows()
    return str(row[0]).replace("\\\\", "\\")


def by_django_copy() -> str:
    with connection.cursor() as cursor:
        return copied(cursor)


def by_django_stream() -> str:
    with connection.cursor() as cursor:
        [(value,)] = cursor.stream(NOW)
    return str(value)


def by_django_callproc() -> str:
    with connection.cursor() as cursor:
        cursor.callproc("current_setting", ["app.tenant", True])
        return str(cursor.fetchone()[0])


def by_psycopg_copy() -> str:
    with connection.connection.cursor() as cursor:
        return copied(cursor)


def by_psycopg_cursor() -> str:
    with connection.connection.cursor() as cursor:
        return str(cursor.execute(f"{NOW}, %s", ["50%"]).fetchone()[0])


def by_psycopg_connection() -> str:
    return str(connection.connection.execute(NOW).fetchone()[0])


def by_psycopg_executemany() -> str:
    with connection.connection.cursor() as cursor:
        cursor.executemany(f"{NOW}, %s", [("1",), ("2",)], returning=True)
        return str(cursor.fetchone()[0])


WAYS = [
    by_django_copy, by_django_stream, by_django_callproc, by_psycopg_copy, by_psycopg_cursor, by_psycopg_connection,
    by_psycopg_executemany,
]  # fmt: skip


@cases("within", [False, True])
@cases("fresh", [False, True])
@cases("way", WAYS)
def test_a_statement_past_the_wrappers_of_django_has_the_settings_too(
    way: Callable[[], str], fresh: bool, within: bool
) -> None:
    connection.ensure_connection()
    with restore(delivery()):
        if fresh:
            connection.close()
            connection.ensure_connection()
        if within:
            with transaction.atomic():
                assert way() == ODD
                assert way() == ODD
        else:
            assert way() == ODD
    assert left() == ""
    assert way() in ("", "None")


def test_a_stream_that_is_not_read_to_its_end_leaves_nothing() -> None:
    with restore(delivery()), connection.cursor() as cursor:
        for value in cursor.stream("SELECT current_setting('app.tenant') FROM generate_series(1, 1000)"):
            assert value == (ODD,)
            break
    assert left() == ""


def test_a_copy_that_fails_is_reported_as_it_is() -> None:
    with restore(delivery()), connection.cursor() as cursor:
        with pytest.raises(psycopg.errors.UndefinedTable), cursor.copy("COPY nowhere TO STDOUT") as copy:
            copy.read()
        assert copied(cursor) == ODD
    assert left() == ""


def test_outside_of_handlers_statements_are_as_they_were(django_assert_num_queries: Any) -> None:
    with restore(delivery()):
        rows(NOW)
    with django_assert_num_queries(1) as captured:
        rows(NOW)
    assert captured.captured_queries[0]["sql"] == NOW


def test_it_stays_in_place_when_others_wrap_statements_while_the_connection_is_made() -> None:
    connection.close()
    connection.execute_wrappers.clear()
    with connection.execute_wrapper(lambda execute, *arguments: execute(*arguments)):
        rows(NOW)
    assert connection.execute_wrappers == [statement_brings]


def test_batches_are_split_by_what_the_settings_need() -> None:
    assert restore.reads == ("tenant",)
