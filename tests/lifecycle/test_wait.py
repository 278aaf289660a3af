from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from django_pgqueue import (
    NewMessage,
    channel_pause,
    channel_resume,
    channel_set,
    defer,
    dequeue,
    enqueue,
    enqueue_many,
    queue_pause,
)
from django_pgqueue.lifecycle.dequeue import next_due, wait
from django_pgqueue.lifecycle.upkeep import tick
from tests.support.moments import pass_time
from tests.support.sql import sql

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


@pytest.fixture
def heard(connect):
    """A function that says which queues were named since it was last asked."""
    ear = connect(autocommit=True)
    ear.execute("LISTEN pgqueue")

    def heard() -> list[str]:
        # Notifications come in the order of commits: whatever was sent before the end has arrived with it.
        sql("NOTIFY pgqueue, '-- the end'")
        queues = []
        for notification in ear.notifies():
            if notification.payload == "-- the end":
                return queues
            queues.append(notification.payload)
        raise AssertionError("the connection ended")

    return heard


def test_a_sleeping_worker_is_woken_with_the_name_of_the_queue(heard):
    channel_set(channel="default", queue="emails")
    wait("me", ["default", "emails"], MINUTE)
    enqueue("h", queue="emails")
    assert heard() == ["emails"]


def test_no_worker_sleeps_and_none_is_woken(heard):
    enqueue("h")
    assert heard() == []


def test_a_worker_that_woke_up_is_not_woken(heard):
    wait("me", ["default"], MINUTE)
    wait("me", ["default"], timedelta(0))
    enqueue("h")
    assert heard() == []


def test_one_transaction_wakes_once_and_when_it_commits(heard):
    wait("me", ["default"], MINUTE)
    with transaction.atomic():
        for _ in range(3):
            enqueue("h")
    assert heard() == ["default"]


def test_one_call_for_many_channels_wakes_each_queue_once(heard):
    queues = ("default", "emails")
    for queue in queues:
        for name in "ab":
            channel_set(channel=name, queue=queue)
    wait("me", queues, MINUTE)
    enqueue_many(NewMessage(handler="h", queue=queue, channel=name) for name in "ab" for queue in queues)
    assert sorted(heard()) == ["default", "emails"]


def test_a_message_for_later_wakes_no_worker_until_it_is_due(heard):
    enqueue("h", delay=timedelta(hours=1))
    wait("me", ["default"], MINUTE)
    assert heard() == []
    pass_time(hours=1)
    wait("me", ["default"], MINUTE)
    tick()
    assert heard() == ["default"]


def test_a_message_that_is_given_back_wakes(heard):
    enqueue("h")
    [delivery] = dequeue()
    wait("me", ["default"], MINUTE)
    defer(delivery)
    assert heard() == ["default"]


def test_a_channel_that_is_resumed_wakes(heard):
    channel_pause(channel="default")
    wait("me", ["default"], MINUTE)
    channel_resume(channel="default")
    assert heard() == ["default"]


def test_notifications_can_be_switched_off(heard):
    wait("me", ["default"], MINUTE)
    sql("SET pgqueue.notify = off")
    enqueue("h")
    sql("RESET pgqueue.notify")
    assert heard() == []
    enqueue("h")
    assert heard() == ["default"]


def test_a_worker_learns_how_long_the_channels_with_a_rate_have_to_wait():
    channel_set(channel="slow", release_interval=MINUTE)
    channel_set(channel="slower", queue="emails", release_interval=2 * MINUTE)
    channel_set(channel="narrow", max_concurrency=1)
    assert next_due(["default", "emails"]) is None
    for channel, queue in (("slow", "default"), ("slower", "emails"), ("narrow", "default")):
        enqueue_many([NewMessage(handler="h", channel=channel, queue=queue)] * 2)
        assert len(dequeue(queue, 10)) == 1
    assert timedelta(0) < next_due(["default", "emails"]) <= MINUTE
    assert MINUTE < next_due(["emails"]) <= 2 * MINUTE
    assert next_due(["nobody's"]) is None
    pass_time(minutes=2)
    assert next_due(["emails"]) < timedelta(0)
    queue_pause("emails")
    assert next_due(["emails"]) is None
