"""Channels take turns, by their weights."""

from __future__ import annotations

from collections import Counter

import pytest

from django_pgqueue import (
    channel_set,
    dequeue,
    enqueue,
)
from tests.support.messages import enqueue_backlog
from tests.support.sql import sql

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


def test_a_channel_of_weight_three_gets_three_of_four():
    channel_set(channel="heavy", weight=3)
    channel_set(channel="light")
    enqueue_backlog("heavy", 9)
    enqueue_backlog("light", 9)
    assert [Counter(name for _ in range(4) for name in served()) for _ in range(3)] == [{"heavy": 3, "light": 1}] * 3


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


def test_a_changed_weight_holds_from_the_next_turn_on():
    channel_set(channel="heavy")
    channel_set(channel="light")
    enqueue_backlog("heavy", 20)
    enqueue_backlog("light", 20)
    served(2)
    channel_set(channel="heavy", weight=4)
    served()
    served()
    assert Counter(name for _ in range(10) for name in served()) == {"heavy": 8, "light": 2}


def test_queues_do_not_mix():
    channel_set(channel="default", queue="emails")
    enqueue("h", queue="emails")
    enqueue("h")
    assert [delivery.queue for delivery in dequeue(limit=10)] == ["default"]
    assert [delivery.queue for delivery in dequeue("emails", 10)] == ["emails"]
    assert dequeue("nowhere") == []


def test_the_floor_of_a_lane_stays_behind_by_a_few_messages_at_most():
    sent = [enqueue("h").id for _ in range(100)]
    dequeue(limit=3)
    behind = []
    for place in range(3, 99):
        assert [delivery.id for delivery in dequeue()] == [sent[place]]
        [(floor,)] = sql("SELECT floor_id FROM pgqueue_lane")
        behind.append(place + 1 - sent.index(floor))
    assert max(behind) == 31
    assert behind.count(0) == 3
    dequeue()
    assert sql("SELECT parked_until = 'infinity' AND floor_at = 'infinity' FROM pgqueue_lane") == [(True,)]
