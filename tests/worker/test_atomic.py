"""Atomic handlers: their writes and the settlement of their message are one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction

from django_pgqueue import Delivery, complete, defer, heartbeat
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import effects, mark, marks, script, scripts, where
from tests.worker.scripted.handlers import sql as sql_in_handler

Drain = Callable[..., dict[str, int]]
ATOMIC = "scripted.atomic"


def test_effects_and_completion_are_one_transaction(drain: Drain) -> None:
    message = script(["effect"], handler=ATOMIC)
    drain()
    xid_of_effect = sql("SELECT xmin::text FROM scripted_effect")
    xid_of_archive = sql("SELECT xmin::text FROM pgqueue_archived_message WHERE id = %s", message)
    assert xid_of_effect == xid_of_archive


@pytest.fixture
def second_alias() -> Iterator[None]:
    """The project has another PostgreSQL database, which no handler uses."""
    connections.settings["second"] = connections.settings["default"].copy()
    yield
    del connections.settings["second"]


@pytest.mark.usefixtures("second_alias")
def test_a_second_database_that_no_handler_uses_changes_nothing(drain: Drain) -> None:
    message = script(["effect"], handler=ATOMIC, max_attempts=1)
    assert drain() == {"completed": 1}
    assert effects() == [(message, 1)]


@pytest.mark.parametrize("steps", [["fail"], ["exit"], ["retry"], ["raise", "retry"], ["answer", 42]], ids=str)
def test_a_failure_rolls_the_effects_back(drain: Drain, steps: list[Any]) -> None:
    message = script(["effect"], steps, handler=ATOMIC, max_attempts=1)
    assert drain() == {"dead_lettered": 1}
    assert where(message) == "dead: failed"
    assert effects() == []


@pytest.mark.parametrize(
    ("steps", "place", "kept"),
    [
        (["complete"], "completed", True),
        (["defer", 3600], "live: scheduled", True),
        (["dead_letter", "refused"], "dead: refused", True),
        (["raise", "complete"], "completed", False),
        (["raise", "defer", 3600], "live: scheduled", False),
        (["raise", "dead_letter", "refused"], "dead: refused", False),
    ],
    ids=str,
)
def test_a_returned_outcome_keeps_the_effects_and_a_raised_one_does_not(
    drain: Drain, steps: list[Any], place: str, kept: bool
) -> None:
    message = script(["effect"], steps, handler=ATOMIC)
    drain()
    assert where(message) == place
    assert len(effects()) == kept


def test_a_lost_lease_rolls_all_of_it_back(start: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    message = script(["effect"], ["first", ["mark", "running"], ["await", "go"]], handler=ATOMIC)
    worker = start(concurrency=2)
    eventually(lambda: marks("running"))
    # The lease runs out while the handler is busy: the sweeper gives the message to another worker.
    sql("UPDATE pgqueue_message SET lease_expires_at = clock_timestamp() - interval '1 second'")
    sql("SELECT pgqueue_sweep()")
    sql("SELECT pgqueue_tick()")
    eventually(lambda: ArchivedMessage.objects.filter(id=message).exists())
    assert effects() == [(message, 2)]
    mark("go")
    eventually(lambda: worker.ledger.totals()["lease_lost"] == 1)
    worker.stop()
    worker.join()
    assert effects() == [(message, 2)]
    assert worker.ledger.totals()["completed"] == 1
    assert [record.event for record in caplog.records if "is lost" in record.message] == ["lease_lost"]


def test_a_broken_transaction_is_a_failure_even_if_the_handler_says_done(drain: Drain, register: Any) -> None:
    def swallow(delivery: Delivery) -> None:
        with suppress(DatabaseError):
            sql_in_handler("SELECT 1 / 0")

    register("swallow", swallow, atomic=True)
    message = script(handler="swallow", max_attempts=1)
    drain()
    assert where(message) == "dead: failed"
    [error] = DeadLetter.objects.get(id=message).errors
    assert (error["type"], error["message"]) == ("django.db.utils.DataError", "division by zero")
    assert "caught this database error" in error["traceback"]


def test_the_first_error_is_kept_whatever_the_handler_tries_after_it(drain: Drain, register: Any) -> None:
    def insist(delivery: Delivery) -> None:
        with suppress(DatabaseError), transaction.atomic():
            sql_in_handler("SELECT 'a'::integer")
        for statement in ("SELECT 1 / 0", "SELECT 1", "SELECT no_such_column"):
            with suppress(DatabaseError):
                sql_in_handler(statement)

    register("insist", insist, atomic=True)
    message = script(handler="insist", max_attempts=1)
    drain()
    assert "division by zero" in DeadLetter.objects.get(id=message).errors[0]["message"]


def test_an_error_behind_a_savepoint_is_none(drain: Drain, register: Any) -> None:
    def careful(delivery: Delivery) -> None:
        with suppress(DatabaseError), transaction.atomic():
            sql_in_handler("SELECT 1 / 0")

    register("careful", careful, atomic=True)
    message = script(handler="careful", max_attempts=1)
    assert drain() == {"completed": 1}
    assert where(message) == "completed"


def test_a_lost_lease_of_another_message_is_a_failure_of_the_handler(drain: Drain, register: Any) -> None:
    calls = []

    def swallow(delivery: Delivery) -> None:
        calls.append(delivery.id)
        with suppress(LeaseLost):
            complete(replace(delivery, id=delivery.id + 1000))

    register("swallow", swallow, atomic=True)
    message = script(handler="swallow", max_attempts=1)
    assert drain() == {"dead_lettered": 1}
    assert calls == [message]
    assert where(message) == "dead: failed"


def test_a_lost_lease_that_the_handler_swallows_commits_nothing(drain: Drain, register: Any) -> None:
    def swallow(delivery: Delivery) -> None:
        sql_in_handler("INSERT INTO scripted_effect (message_id, attempt) VALUES (%s, 1)", delivery.id)
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute("UPDATE pgqueue_message SET lease_token = gen_random_uuid() WHERE id = %s", [delivery.id])
        other.close()
        with suppress(LeaseLost):
            heartbeat(delivery)

    register("swallow", swallow, atomic=True)
    message = script(handler="swallow")
    assert drain(once=True) == {"lease_lost": 1}
    assert effects() == []
    assert where(message) == "live: leased"


ENDS = [["COMMIT"], ["ROLLBACK"], ["COMMIT AND CHAIN"], ["COMMIT", "BEGIN"], ["ROLLBACK", "SELECT 1"]]


@pytest.mark.parametrize("statements", ENDS, ids=str)
@pytest.mark.parametrize("then", [[], ["effect"], ["fail", "after it"]], ids=str)
def test_a_handler_that_ends_its_transaction_is_refused(drain: Drain, statements: list[str], then: list[Any]) -> None:
    steps = [["effect"], *(["sql", statement] for statement in statements), *([then] if then else [])]
    message = script(*steps, handler=ATOMIC, max_attempts=5)
    assert drain() == {"dead_lettered": 1}
    assert where(message) == "dead: transaction_ended"
    # Once, if at all: it is not tried again.
    assert len(effects()) == statements[0].startswith("COMMIT")
    dead = DeadLetter.objects.get(id=message)
    assert "The handler ended the transaction" in dead.details["message"]


def test_a_handler_that_resets_the_settings_of_its_session_has_not_ended_its_transaction(drain: Drain) -> None:
    message = script(["effect"], ["sql", "RESET ALL"], ["effect"], handler=ATOMIC)
    assert drain() == {"completed": 1}
    assert effects() == [(message, 1)] * 2


@pytest.mark.parametrize("settle", [complete, defer], ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("batch", [None, 10])
def test_a_handler_that_settles_its_own_message_gets_an_error_at_once(
    drain: Drain, register: Any, settle: Any, batch: int | None
) -> None:
    register("settles", lambda given: settle(given) and None, atomic=True, batch=batch)
    messages = scripts(3, handler="settles", max_attempts=1)
    assert drain(lease=timedelta(hours=1)) == {"dead_lettered": 3}
    assert {where(message) for message in messages} == {"dead: failed"}
    [error] = DeadLetter.objects.get(id=messages[0]).errors
    assert "settled its own message" in error["message"]


def test_a_deferred_constraint_that_fails_at_commit_is_a_failure(drain: Drain) -> None:
    sql(
        "CREATE TABLE scripted_parent (id int PRIMARY KEY);"
        "CREATE TABLE scripted_child (id int REFERENCES scripted_parent DEFERRABLE INITIALLY DEFERRED)"
    )
    try:
        message = script(["sql", "INSERT INTO scripted_child VALUES (1)"], handler=ATOMIC, max_attempts=1)
        assert drain() == {"dead_lettered": 1}
        assert where(message) == "dead: failed"
    finally:
        sql("DROP TABLE scripted_child, scripted_parent")


def test_a_failing_on_commit_hook_neither_undoes_nor_repeats(drain: Drain, register: Any) -> None:
    ran: list[str] = []

    def hooked(delivery: Delivery) -> None:
        sql_in_handler("INSERT INTO scripted_effect (message_id, attempt) VALUES (%s, 1)", delivery.id)
        transaction.on_commit(lambda: ran.append("first") or 1 / 0)
        transaction.on_commit(lambda: ran.append("second"))

    register("hooked", hooked, atomic=True)
    message = script(handler="hooked")
    assert drain() == {"completed": 1}
    assert effects() == [(message, 1)]
    assert ran == ["first", "second"]


def test_a_lost_connection_in_the_handler_is_retried(start: Callable[..., Any]) -> None:
    steps = ["first", ["sql", "SELECT pg_terminate_backend(pg_backend_pid())"]]
    message = script(["effect"], steps, handler=ATOMIC)
    start(concurrency=1, maintenance=True)
    eventually(lambda: ArchivedMessage.objects.filter(id=message).exists())
    assert effects() == [(message, 2)]


def test_deadlocked_handlers_are_retried(start: Callable[..., Any]) -> None:
    sql("CREATE TABLE scripted_row AS SELECT 1 AS id UNION SELECT 2")
    lock = "SELECT FROM scripted_row WHERE id = {} FOR UPDATE"
    try:
        messages = [
            script(
                ["sql", lock.format(one)],
                ["first", ["mark", f"{one}"], ["await", f"{other}"], ["sql", lock.format(other)]],
                ["effect"],
                handler=ATOMIC,
            )
            for one, other in ((1, 2), (2, 1))
        ]  # fmt: skip
        worker = start(concurrency=2, maintenance=True)
        eventually(lambda: ArchivedMessage.objects.filter(id__in=messages).count() == 2)
        worker.stop()
        worker.join()
        assert worker.ledger.totals()["retried"] == 1
        failed = ArchivedMessage.objects.exclude(errors__isnull=True).get()
        assert "deadlock detected" in failed.errors[0]["message"]
    finally:
        sql("DROP TABLE scripted_row")


def test_heartbeats_go_on_while_a_handler_is_busy(start: Callable[..., Any]) -> None:
    message = script(["mark", "running"], ["await", "go"], ["effect"], handler=ATOMIC)
    worker = start(lease=timedelta(seconds=3), maintenance=True)
    eventually(lambda: marks("running"))
    before = Message.objects.get(id=message).lease_expires_at
    eventually(lambda: Message.objects.get(id=message).lease_expires_at > before + timedelta(seconds=1))
    mark("go")
    eventually(lambda: where(message) == "completed")
    assert effects() == [(message, 1)]
    assert worker.ledger.totals()["lease_lost"] == 0


def test_handler_threads_leave_no_connection_behind(drain: Drain) -> None:
    scripts(20, ["effect"], handler=ATOMIC)
    drain(concurrency=5)
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    eventually(lambda: sql(count)[0][0] == 0)
    assert connection.is_usable()
