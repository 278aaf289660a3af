"""Messages of one order key come one after the other, however Python enqueues and settles them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_pgqueue import (
    Delivery,
    NewMessage,
    aenqueue,
    cancel,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    discard,
    enqueue,
    enqueue_many,
    explain_message,
    pop,
    redrive,
    reschedule,
)
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message
from tests.support.cases import cases

pytestmark = pytest.mark.django_db
KEY = "invoice-7"
HOUR = timedelta(hours=1)

WAYS: dict[str, Callable[[str], int]] = {
    "enqueue": lambda key: enqueue("h", order_key=key).id,
    "aenqueue": lambda key: async_to_sync(aenqueue)("h", order_key=key).id,
    "enqueue_many": lambda key: enqueue_many([NewMessage(handler="h", order_key=key)])[0].id,
    "create": lambda key: Message.objects.create(channel=Channel.objects.get(), handler="h", order_key=key).pk,
    "bulk_create": lambda key: (
        Message.objects.bulk_create([Message(channel=Channel.objects.get(), handler="h", order_key=key)])[0].pk
    ),
}


def ids(deliveries: list[Delivery]) -> list[int]:
    return [delivery.id for delivery in deliveries]


def send(count: int, **fields: Any) -> list[int]:
    return [enqueue("h", order_key=KEY, **fields).id for _ in range(count)]


@cases("way", WAYS)
def test_each_way_to_enqueue_keeps_the_order_of_a_key(way: str):
    first, second = WAYS[way](KEY), WAYS[way](KEY)
    other = WAYS[way]("invoice-8")
    held = dequeue(limit=10)
    assert ids(held) == [first, other]
    assert dequeue(limit=10) == []
    complete(held)
    assert ids(dequeue(limit=10)) == [second]


def test_the_messages_of_one_call_keep_their_order():
    answers = enqueue_many(NewMessage(handler="h", order_key=key) for key in ("a", "b", "a", None, "b"))
    a, b, later_a, free, later_b = (answer.id for answer in answers)
    held = dequeue(limit=10)
    assert ids(held) == [a, b, free]
    complete(held)
    assert ids(dequeue(limit=10)) == [later_a, later_b]


def test_a_dead_letter_lets_the_key_go_on_and_is_redriven_to_its_place():
    first, second, third = send(3)
    dead_letter(dequeue(limit=10), reason="refused")
    [held] = dequeue(limit=10)
    assert held.id == second
    new = redrive([first])[first]
    assert DeadLetter.objects.get().order_key == Message.objects.get(pk=new).order_key == KEY
    assert Message.objects.get(pk=new).order_place == first
    assert dequeue(limit=10) == []
    complete(held)
    [held] = dequeue(limit=10)
    assert held.id == new
    complete(held)
    assert ids(dequeue(limit=10)) == [third]


def test_a_redrive_of_all_brings_a_key_back_in_its_order():
    old = send(4)
    for _ in old:
        dead_letter(dequeue(limit=10), reason="refused")
    new = redrive(list(reversed(old)))
    found = []
    while held := dequeue(limit=10):
        found += ids(held)
        complete(held)
    assert found == [new[message] for message in old]


@pytest.mark.parametrize("remove", [cancel, discard])
def test_the_first_message_of_a_key_that_is_removed_lets_the_next_one_go(remove: Callable[[list[int]], object]):
    first, second = send(2, delay=HOUR)
    reschedule([second])
    assert dequeue(limit=10) == []
    remove([first])
    assert ids(dequeue(limit=10)) == [second]


def test_a_pop_takes_one_message_of_a_key_after_the_other():
    first, second = send(2)
    assert ids(pop(limit=1)) == [first]
    assert ids(pop(limit=1)) == [second]
    assert set(ArchivedMessage.objects.values_list("order_key", flat=True)) == {KEY}


def test_explain_says_for_which_message_another_waits():
    first, second = send(2)
    dequeue(limit=10)
    [reason, *_] = explain_message(second)
    failure = {"dequeue_at": None, "attempt": None, "type": None}
    assert (reason.code, reason.facts) == ("waits_for_order_key", {"order_key": KEY, "message": first, **failure})
    assert reason.sentence == f"It waits for message {first} of the order key {KEY}, which is leased."


def test_a_full_channel_that_drops_a_message_that_waits_keeps_the_order_of_the_others():
    channel_set(channel="small", max_size=2, full_policy="drop_oldest")
    first, second = send(2, channel="small")
    held = dequeue(limit=10)
    assert ids(held) == [first]
    [third] = send(1, channel="small")
    assert not Message.objects.filter(pk=second).exists()
    assert dequeue(limit=10) == []
    complete(held)
    assert ids(dequeue(limit=10)) == [third]
