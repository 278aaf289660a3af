"""Channels take turns, by their weights."""

from __future__ import annotations

from collections import Counter

import pytest

from django_pgqueue import channel_set, dequeue, enqueue
from tests.support.messages import enqueue_backlog

pytestmark = pytest.mark.django_db


def served(limit: int = 1) -> list[str]:
    return [delivery.channel for delivery in dequeue(limit=limit)]


def test_channels_take_turns():
    for name in "abc":
        channel_set(channel=name)
        enqueue_backlog(name, 4)
    for _ in range(4):
        assert sorted(name for _ in range(3) for name in served()) == ["a", "b", "c"]
    assert dequeue() == []


def test_a_new_message_starts_within_one_round_behind_a_great_backlog():
    for name in "abc":
        channel_set(channel=name)
        enqueue_backlog(name, 200)
    dequeue(limit=3)
    channel_set(channel="small")
    enqueue("h", channel="small")
    assert "small" in [name for _ in range(4) for name in served()]


def test_one_batch_is_shared_by_weight():
    channel_set(channel="heavy", weight=3)
    channel_set(channel="light")
    enqueue_backlog("heavy", 20)
    enqueue_backlog("light", 20)
    assert Counter(served(8)) == {"heavy": 6, "light": 2}


def test_a_batch_is_filled_from_the_channels_that_have_messages():
    channel_set(channel="a")
    channel_set(channel="b")
    enqueue_backlog("a", 2)
    enqueue_backlog("b", 20)
    assert Counter(served(10) + served(10)) == {"a": 2, "b": 18}
