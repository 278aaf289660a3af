from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, complete, enqueue, pop
from django_pgqueue.exceptions import InvalidMessage, LeaseLost, PartitionMissing
from django_pgqueue.models import ArchivedMessage, Message
from tests.support.cases import cases
from tests.support.messages import places
from tests.support.refusals import refused, rolled_back
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def test_a_popped_message_is_in_the_archive_at_once():
    sent = enqueue("greet", {"n": 1}, body=b"\xff", headers={"x": 1})
    [delivery] = pop()
    assert (delivery.id, delivery.handler, delivery.payload, delivery.body, delivery.attempt) == (
        sent.id, "greet", {"n": 1}, b"\xff", 1,
    )  # fmt: skip
    assert places(sent.id) == ["archive"]
    kept = ArchivedMessage.objects.get()
    assert (kept.outcome, kept.attempts, kept.payload) == ("popped", 1, {"n": 1})


def test_it_is_delivered_once_only():
    enqueue("h")
    assert len(pop(limit=5)) == 1
    assert pop(limit=5) == []


def test_nothing_is_left_to_settle():
    enqueue("h")
    [delivery] = pop()
    with refused(LeaseLost):
        complete(delivery)


def test_it_keeps_the_order_and_the_limit():
    for priority in (0, 5, 0):
        enqueue("h", priority=priority)
    assert [[delivery.priority for delivery in pop(limit=2)] for _ in range(3)] == [[5, 0], [0], []]


@pytest.mark.django_db(transaction=True)
def test_a_pop_that_is_rolled_back_leaves_the_message_there():
    sent = enqueue("h")
    with rolled_back():
        assert len(pop()) == 1
    assert places(sent.id) == ["live"]
    assert len(pop()) == 1


def test_limits_of_the_channel_hold():
    channel_set(channel="default", release_interval=timedelta(hours=1), max_size=2, max_concurrency=1)
    enqueue("h")
    enqueue("h")
    assert len(pop(limit=5)) == 1
    assert pop() == []
    assert enqueue("h").created


def test_a_place_under_max_concurrency_is_free_again_at_once():
    channel_set(channel="default", max_concurrency=1)
    for _ in range(3):
        enqueue("h")
    assert [len(pop(limit=5)) for _ in range(4)] == [1, 1, 1, 0]


@cases("arguments", [{"limit": 0}, {"limit": -1}, {"limit": 10_001}, {"queue": None}, {"queue": "a\0b"}])
def test_nonsense_is_refused(arguments: dict[str, object]):
    with refused(InvalidMessage):
        pop(**arguments)


def test_without_a_partition_for_today_nothing_is_lost():
    sent = enqueue("h")
    [(partition,)] = sql(
        "SELECT 'pgqueue_archived_message_' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')"
    )
    sql(f"DROP TABLE {partition}")
    with refused(PartitionMissing):
        pop()
    assert places(sent.id) == ["live"]
    assert Message.objects.get().attempts == 0


def test_it_is_a_function_of_the_database_too():
    sent = enqueue("h")
    assert sql("SELECT id FROM pgqueue_pop(p_queue => 'default', p_limit => 3, p_worker => 'psql')") == [(sent.id,)]
    assert ArchivedMessage.objects.get().worker == "psql"
