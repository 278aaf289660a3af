from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_pgqueue import channel_set, complete, dequeue, enqueue, limit_set, metrics, pop, reschedule, retry
from django_pgqueue.delivery import Delivery
from django_pgqueue.models import Message
from tests.support.messages import live
from tests.support.moments import pass_time

pytestmark = pytest.mark.django_db


def test_a_scheduled_message_is_retried_now():
    enqueue("h")
    [delivery] = dequeue()
    retry(delivery, errors=[{"message": "down"}], delays=[timedelta(hours=1)])
    assert dequeue() == []
    assert reschedule(delivery.id) == {delivery.id: "rescheduled"}
    [again] = dequeue()
    assert (again.id, again.attempt) == (delivery.id, 2)
    assert Message.objects.get(pk=again.id).errors[0]["message"] == "down"


def test_a_ready_message_is_put_off():
    sent = enqueue("h")
    at = timezone.now() + timedelta(hours=1)
    assert reschedule(sent.id, at=at) == {sent.id: "rescheduled"}
    assert dequeue() == []
    assert live(sent.id, "status", "dequeue_at") == (Message.Status.SCHEDULED, at)
    pass_time(hours=2)
    assert [delivery.id for delivery in dequeue()] == [sent.id]


def test_a_ready_message_keeps_its_place_when_it_shall_be_due_now():
    first, second = enqueue("h"), enqueue("h")
    assert reschedule(first.id) == {first.id: "ready"}
    assert [delivery.id for delivery in dequeue(limit=2)] == [first.id, second.id]


def test_a_time_that_has_passed_means_now():
    sent = enqueue("h", delay=timedelta(hours=1))
    reschedule(sent.id, at=timezone.now() - timedelta(days=1))
    assert abs(live(sent.id, "dequeue_at") - timezone.now()) < timedelta(minutes=1)
    assert [delivery.id for delivery in dequeue()] == [sent.id]


def test_a_message_that_comes_first_again_is_found_below_the_floor_of_its_lane():
    """The lane has passed its place already: without an arrival no dequeue would look there."""
    late = enqueue("h", priority=9, delay=timedelta(hours=1))
    for _ in range(3):
        enqueue("h")
    dequeue(limit=2)
    reschedule(late.id)
    assert [delivery.id for delivery in dequeue(limit=1)] == [late.id]


def waiting_for_a_limit() -> tuple[Delivery, int]:
    """Return a delivery that takes the only place of a shared limit, and the id of a message that waits for it."""
    limit_set("stripe", max_concurrency=1)
    enqueue("h", limits=["stripe"])
    late = enqueue("h", limits=["stripe"])
    [running] = dequeue(limit=2)
    return running, late.id


def test_a_message_that_waits_for_a_shared_limit_is_scheduled_when_it_is_put_off():
    running, late = waiting_for_a_limit()
    reschedule(late, at=timezone.now() + timedelta(hours=1))
    complete(running)
    [found] = metrics()
    assert (found.scheduled, found.waiting_for_limit) == (1, 0)
    assert dequeue() == []
    pass_time(hours=2)
    assert [delivery.id for delivery in dequeue()] == [late]


def test_messages_that_cannot_be_moved_have_an_outcome_that_says_why():
    for _ in range(3):
        enqueue("h")
    leased, done = dequeue(limit=2)
    complete(done)
    [popped] = pop()
    asked = [leased.id, done.id, popped.id, 10**15]
    assert reschedule(asked, at=timezone.now() + timedelta(hours=1)) == dict(
        zip(asked, ["leased", "settled", "settled", "not_found"], strict=True)
    )
    assert reschedule([]) == {}


def test_the_size_of_a_channel_stays_as_it_is():
    channel_set(channel="default", max_size=1)
    sent = enqueue("h")
    reschedule(sent.id, at=timezone.now() + timedelta(hours=1))
    reschedule(sent.id)
    complete(dequeue())
    assert enqueue("h").created
