from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, enqueue, pop
from django_pgqueue.models import ArchivedMessage
from tests.support.messages import places
from tests.support.refusals import rolled_back

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
