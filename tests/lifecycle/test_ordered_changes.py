"""A channel becomes ordered, and stops to be, while messages wait and are leased."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_release, channel_set, complete, dequeue
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Channel
from tests.lifecycle.ordered import fail, numbers, one_by_one
from tests.support.messages import enqueue_backlog
from tests.support.moments import pass_time
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


def test_an_ordered_channel_has_a_max_concurrency_of_one():
    channel_set(channel="default", max_concurrency=5)
    channel_set(channel="default", ordered=True)
    assert Channel.objects.get().max_concurrency == 1
    channel_set(channel="default", ordered=False)
    assert Channel.objects.get().max_concurrency == 1
    channel_set(channel="default", max_concurrency=None)
    assert Channel.objects.get().max_concurrency is None


@pytest.mark.parametrize("limit", [5, None])
def test_an_ordered_channel_takes_no_other_limit(limit: int | None):
    with refused(InvalidMessage, "it is ordered: its max_concurrency is 1"):
        channel_set(channel="new", ordered=True, max_concurrency=limit)
    channel_set(channel="default", ordered=True)
    with refused(InvalidMessage, "it is ordered"):
        channel_set(channel="default", max_concurrency=limit)
    channel_set(channel="default", ordered=False, max_concurrency=limit)


def test_a_channel_that_becomes_ordered_serves_none_until_the_leases_of_before_are_settled():
    enqueue_backlog("default", 5)
    leases = dequeue(limit=3)
    channel_set(channel="default", ordered=True)
    for lease in leases:
        assert dequeue(limit=10) == []
        complete(lease)
    assert numbers(dequeue(limit=10)) == [3]


def test_leases_of_before_that_fail_hold_the_channel_in_their_order():
    enqueue_backlog("default", 4)
    leases = dequeue(limit=2)
    channel_set(channel="default", ordered=True)
    fail(leases[1], timedelta(minutes=10))
    fail(leases[0], timedelta(minutes=30))
    assert dequeue(limit=10) == []
    pass_time(minutes=20)
    assert dequeue(limit=10) == []
    pass_time(minutes=11)
    assert one_by_one(3) == [0, 1, 2]


@pytest.mark.usefixtures("ordered")
def test_a_held_message_is_a_scheduled_one_when_the_order_ends():
    enqueue_backlog("default", 2)
    [first] = dequeue(limit=10)
    fail(first)
    assert dequeue(limit=10) == []
    channel_set(channel="default", ordered=False, max_concurrency=None)
    assert numbers(dequeue(limit=10)) == [1]
    pass_time(hours=1, seconds=1)
    assert numbers(dequeue(limit=10)) == [0]


@pytest.mark.usefixtures("ordered")
def test_a_released_channel_drains_in_order():
    enqueue_backlog("default", 3)
    [first] = dequeue(limit=10)
    channel_release(channel="default")
    assert dequeue(limit=10) == []
    fail(first)
    assert dequeue(limit=10) == []
    pass_time(hours=1, seconds=1)
    assert one_by_one(3) == [0, 1, 2]
