"""A message of an ordered channel that is not settled for good holds its channel."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_pgqueue import (
    Delivery,
    cancel,
    channel_set,
    complete,
    defer,
    dequeue,
    discard,
    enqueue,
    lease_release,
    pop,
    reschedule,
    sweep,
)
from django_pgqueue.lifecycle.channels import channel_purge
from django_pgqueue.lifecycle.dequeue import dequeue_matching
from django_pgqueue.lifecycle.settle import give_back
from tests.lifecycle.ordered import HOUR, fail, numbers, one_by_one
from tests.support.messages import enqueue_backlog, enqueue_numbered, live
from tests.support.moments import expire, pass_time
from tests.support.sql import sql

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("ordered")]


def expire_and_sweep(delivery: Delivery) -> None:
    sql("UPDATE pgqueue_message SET backoff = %s, backoff_factor = 1 WHERE id = %s", HOUR, delivery.id)
    expire(delivery)
    sweep()


def test_one_message_is_leased_at_a_time_and_in_order():
    enqueue_backlog("default", 5)
    for number in range(5):
        [delivery] = dequeue(limit=10)
        assert delivery.payload == number
        assert dequeue(limit=10) == []
        complete(delivery)


@pytest.mark.parametrize(
    "give_up",
    [fail, lambda delivery: defer(delivery, delay=HOUR), expire_and_sweep],
    ids=["retry", "defer", "expired lease"],
)
def test_a_message_that_will_be_delivered_again_is_not_overtaken(give_up: Callable[[Delivery], Any]):
    enqueue_backlog("default", 3)
    [first] = dequeue(limit=10)
    place = live(first.id, "dequeue_at")
    give_up(first)
    assert dequeue(limit=10) == []
    assert live(first.id, "dequeue_at") == place
    pass_time(hours=1, seconds=1)
    [again] = dequeue(limit=10)
    assert again.id == first.id
    complete(again)
    assert numbers(dequeue(limit=10)) == [1]


def test_a_failed_message_holds_the_channel_when_it_is_alone_too():
    enqueue("h", 0)
    fail(dequeue(limit=10)[0])
    enqueue("h", 1)
    assert dequeue(limit=10) == []
    pass_time(hours=1, seconds=1)
    assert numbers(dequeue(limit=10)) == [0]


def test_a_failed_message_holds_the_channel_before_a_more_urgent_one():
    enqueue("h", "calm")
    fail(dequeue(limit=10)[0])
    enqueue("h", "urgent", priority=9)
    enqueue("h", "early", dequeue_at=timezone.now() - HOUR)
    assert dequeue(limit=10) == []
    pass_time(hours=1, seconds=1)
    assert one_by_one(3) == ["calm", "urgent", "early"]


@pytest.mark.parametrize("back", [defer, give_back, lambda delivery: lease_release(delivery.id)])
def test_a_message_that_is_given_back_is_the_next(back: Callable[[Delivery], Any]):
    enqueue_backlog("default", 2)
    [first] = dequeue(limit=10)
    enqueue("h", "urgent", priority=9)
    back(first)
    assert [delivery.id for delivery in dequeue(limit=10)] == [first.id]


@pytest.mark.parametrize(
    "remove",
    [
        lambda delivery: cancel(delivery.id),
        lambda delivery: discard(delivery.id),
        lambda delivery: channel_purge(channel="default", limit=1),
    ],
    ids=["cancel", "discard", "purge"],
)
def test_the_channel_goes_on_when_the_message_is_taken_out(remove: Callable[[Delivery], Any]):
    enqueue_backlog("default", 2)
    [first] = dequeue(limit=10)
    fail(first)
    assert dequeue(limit=10) == []
    remove(first)
    assert numbers(dequeue(limit=10)) == [1]


def test_the_channel_goes_on_when_a_full_channel_drops_the_message():
    channel_set(channel="default", max_size=2, full_policy="drop_oldest")
    enqueue_numbered(2)
    fail(dequeue(limit=10)[0])
    assert dequeue(limit=10) == []
    enqueue("h", 2)
    assert numbers(dequeue(limit=10)) == [1]


def test_a_held_message_that_is_rescheduled_for_now_is_delivered_at_once():
    enqueue_backlog("default", 2)
    [first] = dequeue(limit=10)
    fail(first)
    assert dequeue(limit=10) == []
    assert reschedule(first.id) == {first.id: "rescheduled"}
    assert [delivery.id for delivery in dequeue(limit=10)] == [first.id]


def test_a_held_message_that_is_rescheduled_for_later_goes_on_holding_the_channel():
    enqueue_backlog("default", 2)
    [first] = dequeue(limit=10)
    fail(first)
    reschedule(first.id, at=timezone.now() + 2 * HOUR)
    pass_time(hours=1, minutes=30)
    assert dequeue(limit=10) == []
    pass_time(minutes=31)
    assert [delivery.id for delivery in dequeue(limit=10)] == [first.id]


@pytest.mark.parametrize("failed", [True, False], ids=["after a failure", "before any failure"])
def test_a_message_that_was_given_back_goes_on_holding_the_channel_until_its_new_time(failed: bool):
    """A worker that stops gives back what it has not started. It was delivered before others all the same."""
    enqueue_backlog("default", 2)
    [first] = dequeue(limit=10)
    if failed:
        fail(first, timedelta(0))
        [first] = dequeue(limit=10)
    give_back(first)
    assert reschedule(first.id, at=timezone.now() + HOUR) == {first.id: "rescheduled"}
    assert dequeue(limit=10) == []
    pass_time(hours=1, seconds=1)
    assert numbers(dequeue(limit=10)) == [0]


def test_a_waiting_message_that_is_rescheduled_leaves_its_place():
    first, *_ = enqueue_numbered(2)
    reschedule(first, at=timezone.now() + HOUR)
    [second] = dequeue(limit=10)
    assert second.payload == 1
    fail(second)
    pass_time(hours=1, seconds=1)
    assert numbers(dequeue(limit=10)) == [1]


def test_a_match_does_not_overtake_the_first_message():
    enqueue("first")
    enqueue("second")
    assert dequeue_matching(handler="second", limit=10) == []
    [first] = dequeue_matching(handler="first", limit=10)
    complete(first)
    assert [delivery.handler for delivery in dequeue_matching(handler="second", limit=10)] == ["second"]


def test_pop_takes_one_after_the_other():
    enqueue_backlog("default", 3)
    assert [numbers(pop(limit=10)) for _ in range(4)] == [[0], [1], [2], []]
