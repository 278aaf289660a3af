"""Dead letters of an ordered channel: the channel goes on or pauses, and a redrive puts them back at their place."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from django_pgqueue import (
    Delivery,
    NewMessage,
    channel_pause,
    channel_resume,
    channel_set,
    dead_letter,
    dequeue,
    discard,
    enqueue_many,
    redrive,
    sweep,
)
from django_pgqueue.models import Channel, DeadLetter
from tests.lifecycle.ordered import HOUR, fail, numbers, one_by_one
from tests.support.messages import enqueue_backlog, enqueue_numbered
from tests.support.moments import expire, pass_time

pytestmark = pytest.mark.django_db


def first_of_a_channel_that_pauses(**fields: Any) -> Delivery:
    """Lease the first of two messages of an ordered channel that a dead letter pauses."""
    channel_set(channel="default", ordered=True, on_dead="pause")
    enqueue_backlog("default", 2, **fields)
    [first] = dequeue(limit=10)
    return first


@pytest.mark.usefixtures("ordered")
def test_a_dead_letter_lets_the_channel_go_on():
    enqueue_backlog("default", 2)
    dead_letter(dequeue(limit=10), reason="refused")
    assert numbers(dequeue(limit=10)) == [1]


def test_a_dead_letter_pauses_the_channel_if_that_is_its_policy():
    first = first_of_a_channel_that_pauses(max_attempts=1)
    fail(first)
    assert dequeue(limit=10) == []
    channel = Channel.objects.get(name="default")
    assert channel.paused_at is not None
    assert channel.pause_reason == f"message {first.id} became a dead letter (failed)"
    channel_resume(channel="default")
    assert numbers(dequeue(limit=10)) == [1]


def test_a_poisonous_message_pauses_the_channel_too():
    channel_set(channel="default", ordered=True, on_dead="pause")
    enqueue_backlog("default", 2, max_attempts=1)
    expire(*dequeue(limit=10))
    sweep()
    assert dequeue(limit=10) == []
    assert Channel.objects.get(name="default").pause_reason.endswith("(poison)")


def test_the_end_of_an_operators_pause_does_not_end_that_of_a_dead_letter():
    first = first_of_a_channel_that_pauses()
    channel_pause(channel="default", reason="lunch", until=timezone.now() + HOUR)
    dead_letter(first, reason="refused")
    pass_time(hours=2)
    sweep()
    assert dequeue(limit=10) == []
    assert Channel.objects.get().pause_reason == f"lunch; message {first.id} became a dead letter (refused)"


def test_a_redrive_does_not_end_a_pause_that_was_there_before_the_dead_letter():
    first = first_of_a_channel_that_pauses()
    channel_pause(channel="default")
    dead_letter(first, reason="refused")
    redrive([first.id])
    assert dequeue(limit=10) == []
    assert Channel.objects.get().pause_reason == f"paused; message {first.id} became a dead letter (refused)"


def test_a_message_that_an_operator_discards_does_not_pause_its_channel():
    channel_set(channel="default", ordered=True, on_dead="pause")
    enqueue_backlog("default", 2)
    discard(dequeue(limit=10)[0].id)
    assert numbers(dequeue(limit=10)) == [1]


@pytest.mark.parametrize("before", [{"ordered": True}, {"on_dead": "pause"}, {}])
def test_only_a_dead_letter_after_the_policy_was_set_pauses_the_channel(before: dict[str, Any]):
    channel_set(channel="default", ordered=True)
    enqueue_backlog("default", 3)
    dead_letter(dequeue(limit=10), reason="refused")
    channel_set(channel="default", **{"ordered": False, **before})
    channel_set(channel="default", ordered=True, on_dead="pause")
    assert Channel.objects.get().paused_at is None
    [second] = dequeue(limit=10)
    assert second.payload == 1
    dead_letter(second, reason="refused")
    assert dequeue(limit=10) == []
    assert Channel.objects.get().pause_reason == f"message {second.id} became a dead letter (refused)"


def test_a_redrive_ends_the_pause_and_the_dead_letter_is_the_next():
    channel_set(channel="default", ordered=True, on_dead="pause")
    enqueue_backlog("default", 3)
    [first] = dequeue(limit=10)
    dead_letter(first, reason="refused")
    assert dequeue(limit=10) == []
    redrive([first.id])
    assert one_by_one(3) == [0, 1, 2]


def test_a_redrive_leaves_an_operators_pause():
    first = first_of_a_channel_that_pauses()
    dead_letter(first, reason="refused")
    channel_pause(channel="default", reason="I am looking into it")
    redrive([first.id])
    assert dequeue(limit=10) == []
    channel_resume(channel="default")
    assert numbers(dequeue(limit=10)) == [0]


@pytest.mark.usefixtures("ordered")
def test_redriven_messages_come_in_their_old_order_before_those_that_wait():
    enqueue_many(NewMessage(handler="h", payload=number) for number in range(6))
    for _ in range(3):
        dead_letter(dequeue(limit=10), reason="refused")
    redrive(reversed([letter.id for letter in DeadLetter.objects.order_by("id")]))
    assert one_by_one(6) == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("ordered")
def test_a_redrive_for_later_or_to_another_channel_joins_at_its_time():
    channel_set(channel="other", ordered=True)
    enqueue_numbered(3)
    old = []
    for _ in range(2):
        [delivery] = dequeue(limit=10)
        old.append(delivery.id)
        dead_letter(delivery, reason="refused")
    redrive(old[:1], channel="other")
    redrive(old[1:], times=[timezone.now() + HOUR])
    assert sorted((d.channel, d.payload) for d in dequeue(limit=10)) == [("default", 2), ("other", 0)]


def test_a_redrive_of_a_channel_without_order_joins_at_the_end():
    enqueue_numbered(2)
    [first] = dequeue()
    dead_letter(first, reason="refused")
    redrive([first.id])
    assert numbers(dequeue(limit=2)) == [1, 0]
