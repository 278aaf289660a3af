from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import NewMessage, channel_set, complete, dequeue, enqueue, enqueue_many, peek
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.models import Message
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


def test_a_look_takes_nothing():
    sent = enqueue("greet", {"n": 1}, body=b"\xff", headers={"x": 1})
    for _ in range(2):
        [seen] = peek()
        assert (seen.id, seen.handler, seen.payload, seen.body, seen.headers) == (
            sent.id, "greet", {"n": 1}, b"\xff", {"x": 1},
        )  # fmt: skip
    assert Message.objects.values_list("status", "attempts", "lease_token").get() == (Message.Status.READY, 0, None)
    assert [delivery.id for delivery in dequeue()] == [sent.id]


def test_a_message_that_was_only_peeked_at_cannot_be_settled():
    enqueue("h")
    [seen] = peek()
    assert (seen.token, seen.lease_expires_at, seen.attempt) == (None, None, 0)
    with refused(LeaseLost):
        complete(seen)


def test_it_shows_what_comes_next():
    for n, priority in enumerate((0, 5, 0)):
        enqueue("h", n, priority=priority)
    assert [seen.payload for seen in peek(limit=2)] == [1, 0]
    assert [seen.payload for seen in peek(limit=10)] == [delivery.payload for delivery in dequeue(limit=10)]


def test_leased_and_scheduled_messages_do_not_come_next():
    enqueue("h", "leased")
    dequeue()
    enqueue("h", "scheduled", delay=timedelta(hours=1))
    assert peek(limit=10) == []


def test_one_channel_can_be_looked_at():
    channel_set(channel="a")
    channel_set(channel="b")
    for name in "ab":
        enqueue("h", channel=name)
    assert [seen.channel for seen in peek(channel="b", limit=10)] == ["b"]
    assert sorted(seen.channel for seen in peek(limit=10)) == ["a", "b"]
    assert peek("emails", 10) == []
    assert peek(channel="nowhere") == []


def test_the_line_of_the_queue_is_shown():
    for name in "abc":
        channel_set(channel=name)
        enqueue_many(NewMessage(handler="h", channel=name) for _ in range(3))
    [first] = dequeue()
    [seen] = peek()
    [second] = dequeue()
    assert seen.id == second.id
    assert second.channel != first.channel
