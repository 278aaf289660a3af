"""drain, with each kind of handler, inside of the transaction of a TestCase."""

from __future__ import annotations

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction

from django_pgqueue import enqueue, handler
from django_pgqueue.testing import adrain, drain

pytestmark = pytest.mark.django_db


def test_async_handlers_use_the_connection_of_the_test(calls):
    @handler("t.group")
    async def group(delivery):
        calls.append(await Group.objects.acount())
        await Group.objects.acreate(name="made")

    Group.objects.create(name="of the test")
    enqueue("t.group")

    assert drain().counts == {"completed": 1}
    assert calls == [1]
    assert Group.objects.filter(name="made").exists()


def test_a_batch_is_one_call_and_a_bad_message_fails_alone(calls):
    @handler("t.batch", batch=3)
    def batch(deliveries):
        calls.append([delivery.payload for delivery in deliveries])
        if "bad" in calls[-1]:
            raise ValueError("bad")

    for payload in ("a", "b", "c", "d", "bad"):
        enqueue("t.batch", payload)

    drained = drain(raise_errors=False)

    assert calls == [["a", "b", "c"], ["d", "bad"], ["d"], ["bad"]]
    assert {item.delivery.payload: (item.event, bool(item.error)) for item in drained} == {
        "a": ("completed", False),
        "b": ("completed", False),
        "c": ("completed", False),
        "d": ("completed", False),
        "bad": ("retried", True),
    }


def test_the_rows_of_an_atomic_handler_are_rolled_back_when_it_fails():
    @handler("t.group", atomic=True)
    def group(delivery):
        Group.objects.create(name=delivery.payload)
        if delivery.payload == "bad":
            raise ValueError("bad")

    enqueue("t.group", "good")
    enqueue("t.group", "bad")

    assert drain(raise_errors=False).counts == {"completed": 1, "retried": 1}
    assert [group.name for group in Group.objects.all()] == ["good"]


@pytest.mark.parametrize("caught", [True, False])
def test_a_statement_that_fails_ends_its_handler_but_not_the_test(caught):
    @handler("t.group")
    def group(delivery):
        Group.objects.create(name="twice")
        try:
            Group.objects.create(name="twice")
        except IntegrityError:
            if not caught:
                raise

    enqueue("t.group")

    drained = drain(raise_errors=False)

    assert drained.counts == {"completed" if caught else "retried": 1}
    assert not connection.needs_rollback


@pytest.mark.parametrize("atomic", [True, False])
def test_on_commit_runs_when_the_message_is_settled(calls, atomic):
    @handler("t.commit", atomic=atomic)
    def commit(delivery):
        with transaction.atomic():
            transaction.on_commit(lambda: calls.append(delivery.payload))
        if delivery.payload == "bad":
            raise ValueError("bad")

    transaction.on_commit(lambda: calls.append("of the test"))
    enqueue("t.commit", "good")
    drain()
    enqueue("t.commit", "bad")
    drain(raise_errors=False)

    # One that is not atomic had a transaction of its own, which was committed before it failed.
    assert calls == (["good"] if atomic else ["good", "bad"])


def test_the_ticks_of_a_worker_hide_nothing_from_a_test_that_is_slow(pg_url, calls):
    handler("t.note")(lambda delivery: calls.append(delivery.payload))
    with psycopg.connect(pg_url, autocommit=True) as other:
        for number in range(4):
            enqueue("t.note", number)
            # The floor of the arrivals passes the transaction of this test.
            other.execute("SELECT pgqueue_tick()")
            other.execute("SELECT pgqueue_tick()")
            if number % 2:
                drain()

    assert calls == [0, 1, 2, 3]


def test_an_async_test_drains_with_adrain(calls):
    handler("t.note")(lambda delivery: calls.append(delivery.payload))
    enqueue("t.note", 1)

    async def test():
        assert (await adrain()).counts == {"completed": 1}

    async_to_sync(test)()
    assert calls == [1]
