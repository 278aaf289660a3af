"""Dequeue keeps to the limits of channels: concurrency, rate, pause, release."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from django_pgqueue import channel_set, complete, dead_letter, defer, dequeue, lease_release, retry, sweep
from django_pgqueue.models import Channel
from tests.lifecycle.test_dequeue_turns import served
from tests.support.messages import enqueue_backlog
from tests.support.moments import expire, pass_time

pytestmark = pytest.mark.django_db


def test_no_more_than_max_concurrency_are_leased_at_a_time():
    channel_set(channel="default", max_concurrency=2)
    enqueue_backlog("default", 5)
    first = dequeue(limit=10)
    assert [delivery.payload for delivery in first] == [0, 1]
    assert dequeue(limit=10) == []
    complete(first[0])
    assert [delivery.payload for delivery in dequeue(limit=10)] == [2]
    assert dequeue(limit=10) == []


@pytest.mark.parametrize(
    "give_back",
    [
        complete,
        lambda delivery: defer(delivery, delay=timedelta(hours=1)),
        lambda delivery: retry(delivery, errors=[{}], delays=[timedelta(hours=1)]),
        lambda delivery: (expire(delivery), sweep()),
        lambda delivery: lease_release(delivery.id),
        lambda delivery: dead_letter(delivery, reason="broken"),
    ],
    ids=["complete", "defer", "retry", "sweep", "lease_release", "dead_letter"],
)
def test_every_way_to_give_up_a_lease_frees_its_place(give_back):
    channel_set(channel="default", max_concurrency=1)
    enqueue_backlog("default", 2)
    [delivery] = dequeue(limit=10)
    assert dequeue() == []
    give_back(delivery)
    assert len(dequeue(limit=10)) == 1
    assert dequeue(limit=10) == []


@pytest.mark.django_db(transaction=True)
def test_an_expired_lease_holds_its_place_until_it_is_taken_back(connect):
    channel_set(channel="default", max_concurrency=1)
    enqueue_backlog("default", 2)
    [delivery] = dequeue()
    expire(delivery)
    settling = connect()
    settling.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [delivery.id])
    assert dequeue(limit=10) == [], "it is being settled, and counts"
    settling.rollback()
    [other] = dequeue(limit=10)
    assert other.payload == 1


def test_max_concurrency_changes_while_messages_run():
    channel_set(channel="default", max_concurrency=1)
    enqueue_backlog("default", 9)
    running = dequeue(limit=10)
    Channel.objects.update(max_concurrency=3)
    running += dequeue(limit=10)
    assert len(running) == 3
    channel_set(channel="default", max_concurrency=2)
    complete(running.pop())
    assert dequeue(limit=10) == []
    complete(running.pop())
    running += dequeue(limit=10)
    assert len(running) == 2
    channel_set(channel="default", max_concurrency=None)
    assert len(dequeue(limit=10)) == 5


def test_a_channel_at_its_limit_does_not_hold_up_the_others():
    channel_set(channel="full", max_concurrency=1)
    channel_set(channel="free")
    enqueue_backlog("full", 10)
    enqueue_backlog("free", 10)
    assert Counter(served(11) + served(11)) == {"full": 1, "free": 10}


def test_a_release_interval_lets_one_message_go_at_a_time():
    channel_set(channel="default", release_interval=timedelta(minutes=1))
    enqueue_backlog("default", 3)
    assert len(dequeue(limit=10)) == 1
    assert dequeue(limit=10) == []
    pass_time(seconds=50)
    assert dequeue(limit=10) == []
    pass_time(seconds=10)
    assert len(dequeue(limit=10)) == 1
    assert dequeue(limit=10) == []


def test_a_burst_may_come_after_a_quiet_time_and_not_more():
    channel_set(channel="default", release_interval=timedelta(minutes=1), release_burst=3)
    enqueue_backlog("default", 20)
    assert [len(dequeue(limit=10)), len(dequeue(limit=10))] == [3, 0]
    pass_time(minutes=1)
    assert [len(dequeue(limit=10)), len(dequeue(limit=10))] == [1, 0]
    pass_time(hours=10)
    assert [len(dequeue(limit=10)), len(dequeue(limit=10))] == [3, 0]
