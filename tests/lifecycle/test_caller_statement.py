"""An enqueue passes Django's cursor by once its session has prepared the statement, and does what it did before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.backends.utils import CursorWrapper
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from django_pgqueue import NewMessage, channel_set, enqueue, enqueue_many, limit_set
from django_pgqueue.delivery import Enqueued
from django_pgqueue.exceptions import ChannelFull, ChannelNotFound
from django_pgqueue.models import Message
from django_pgqueue.sql.caller import BY_CURSOR
from django_pgqueue.worker.database import without_pool
from tests.support.sql import sql
from tests.worker.pooler import transaction_pooler

Open = Callable[..., BaseDatabaseWrapper]
NAMES = "SELECT name FROM pg_prepared_statements WHERE name LIKE 'pgqueue_%%' ORDER BY name"
ONE, MANY = ("pgqueue_enqueue",), ("pgqueue_enqueue_many",)


@pytest.fixture
def opened(transactional_db: None) -> Iterator[Open]:
    """A new connection "default" of this thread: `opened(prepare_threshold=None)`."""
    with ExitStack() as stack:
        # The middleware set_local, which tests before may have imported, looks at the statements of new connections.
        stack.enter_context(mock.patch.object(connection_created, "receivers", []))

        def open_connection(**options: Any) -> BaseDatabaseWrapper:
            before = connections["default"]
            connection = without_pool(before)
            connection.settings_dict["OPTIONS"] |= options
            connections["default"] = connection
            stack.callback(connections.__setitem__, "default", before)
            stack.callback(connection.close)
            return connection

        yield open_connection


@pytest.fixture
def ready(opened: Open) -> BaseDatabaseWrapper:
    """The same, after its session has prepared both statements."""
    connection = opened()
    repeat()
    assert sql(NAMES) == [ONE, MANY]
    return connection


def repeat(times: int = BY_CURSOR + 1) -> None:
    for _ in range(times):
        enqueue("plain")
        enqueue_many([NewMessage(handler="plain")])


def cursors() -> Any:
    """Count the statements that go through Django's cursor."""
    return mock.patch.object(CursorWrapper, "_execute", autospec=True, side_effect=CursorWrapper._execute)


def test_a_session_prepares_what_it_repeats(opened: Open) -> None:
    opened()
    repeat(BY_CURSOR)
    assert sql(NAMES) == [], "many sessions end after one request"
    repeat(1)
    assert sql(NAMES) == [ONE, MANY]
    with cursors() as seen:
        repeat(2)
    assert seen.call_count == 0
    assert Message.objects.count() == 2 * (BY_CURSOR + 3)


FIELDS: list[dict[str, Any]] = [
    {"payload": {"text": "é % \\ ' \" \x1f", "n": 1.5}, "headers": {"trace": "x"}, "body": b"\x00\xff'\\"},
    {"delay": timedelta(days=3, microseconds=7), "backoff": timedelta(seconds=1.5), "max_attempts": 9, "priority": -3},
    {"dequeue_at": datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC), "order_key": "k, {}", "cost": 3},
    {"limits": ["mail, {a}", "other\\"], "dedupe_key": "%s $1", "payload": None},
]
COMPARED = [name.attname for name in Message._meta.concrete_fields if name.attname not in ("id", "created_at")]


def enqueue_first(handler: str, **fields: Any) -> Enqueued:
    return enqueue_many([NewMessage(handler=handler, **fields)])[0]


def stored(answer: Enqueued) -> dict[str, Any]:
    """Return the columns of a message, which is removed; the due time by the second, from its creation."""
    message = Message.objects.get(pk=answer.id)
    assert answer.created_at == message.created_at
    row = {name: getattr(message, name) for name in COMPARED}
    if row["dequeue_at"].year > 2024:
        row["dequeue_at"] = round((message.dequeue_at - message.created_at).total_seconds())
    message.delete()
    return row


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("send", [enqueue, enqueue_first])
def test_each_field_arrives_as_by_the_cursor(
    ready: BaseDatabaseWrapper, send: Callable[..., Enqueued], fields: dict[str, Any]
) -> None:
    for name in fields.get("limits", ()):
        limit_set(name, max_concurrency=5)
    with CaptureQueriesContext(ready) as captured:
        by_cursor = send("plain", **fields)
    assert len(captured) == 1
    expected = stored(by_cursor)
    with cursors() as seen:
        passed = send("plain", **fields)
    assert seen.call_count == 0
    assert stored(passed) == expected


def roll_back(connection: BaseDatabaseWrapper, *, begun: bool) -> None:
    """Enqueue in a transaction that the first enqueue begins, unless it has `begun`, and that fails."""
    with transaction.atomic():
        if begun:
            sql("SELECT 1")
        enqueue("plain")
        enqueue_many([NewMessage(handler="plain")])
        transaction.set_rollback(True)
    connection.set_autocommit(False)
    if begun:
        sql("SELECT 1")
    enqueue("plain")
    connection.rollback()
    connection.set_autocommit(True)


@pytest.mark.parametrize("begun", [False, True])
def test_a_message_is_part_of_the_callers_transaction(ready: BaseDatabaseWrapper, begun: bool) -> None:
    before = Message.objects.count()
    roll_back(ready, begun=begun)
    assert Message.objects.count() == before
    with transaction.atomic():
        enqueue("plain")
        roll_back_to_a_savepoint()
    assert Message.objects.count() == before + 1


def roll_back_to_a_savepoint() -> None:
    with transaction.atomic():
        enqueue("plain")
        transaction.set_rollback(True)


def test_a_caught_refusal_leaves_the_callers_writes(ready: BaseDatabaseWrapper) -> None:
    channel_set(channel="full", max_size=1)
    enqueue("plain", channel="full")
    with transaction.atomic():
        enqueue("plain", dedupe_key="kept")
        with pytest.raises(ChannelFull):
            enqueue("plain", channel="full")
        with pytest.raises(ChannelNotFound):
            enqueue_many([NewMessage(handler="plain", channel="nowhere")])
        assert enqueue("plain", dedupe_key="kept").outcome == "duplicate"
    assert Message.objects.filter(dedupe_key="kept").count() == 1


def test_query_logs_and_wrappers_see_each_enqueue(ready: BaseDatabaseWrapper) -> None:
    with CaptureQueriesContext(ready) as captured:
        repeat(2)
    assert len(captured) == 4
    seen = []
    with ready.execute_wrapper(lambda execute, *arguments: seen.append(arguments) or execute(*arguments)):
        repeat(1)
    assert len(seen) == 2


def test_a_connection_prepares_nothing_where_its_options_decide(opened: Open) -> None:
    opened(prepare_threshold=None)
    repeat(BY_CURSOR + 2)
    assert sql(NAMES) == []


def test_a_connection_prepares_nothing_behind_a_pooler(opened: Open, pg_url: str) -> None:
    with transaction_pooler(pg_url) as url:
        host, port = url.rsplit("@", 1)[-1].split("/")[0].split(":")
        connection = opened()
        connection.settings_dict |= {"HOST": host, "PORT": port}
        repeat(BY_CURSOR + 2)
        assert sql(NAMES) == []
        connection.close()


def test_an_enqueue_survives_deallocate_all(ready: BaseDatabaseWrapper) -> None:
    sql("DEALLOCATE ALL")
    before = Message.objects.count()
    repeat()
    assert Message.objects.count() == before + 2 * (BY_CURSOR + 1)
    assert sql(NAMES) == [ONE, MANY]
    sql("DEALLOCATE ALL")
    with pytest.raises(DatabaseError, match="pgqueue_enqueue"):
        enqueue_later()
    enqueue_later()
    assert Message.objects.count() == before + 2 * (BY_CURSOR + 1) + 1


def enqueue_later() -> None:
    """Enqueue in a transaction that has begun."""
    with transaction.atomic():
        sql("SELECT 1")
        enqueue("plain")


def test_an_enqueue_is_refused_where_a_cursor_would_be(ready: BaseDatabaseWrapper) -> None:
    with transaction.atomic():
        sql("SELECT 1")
        transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            enqueue("plain")

    async def within_a_loop() -> None:
        connections["default"] = ready
        enqueue("plain")

    with pytest.raises(SynchronousOnlyOperation):
        asyncio.run(within_a_loop())
