from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from django_pgqueue import channel_pause, channel_resume, channel_set, dequeue, enqueue
from django_pgqueue.models import Channel

pytestmark = pytest.mark.django_db


def test_a_resumed_channel_is_delivered_again():
    for n in range(3):
        enqueue("h", n)
    channel_pause(channel="default", reason="closed")
    assert dequeue(limit=10) == []
    channel_resume(channel="default")
    assert [delivery.payload for delivery in dequeue(limit=10)] == [0, 1, 2]
    channel = Channel.objects.get()
    assert (channel.paused_at, channel.pause_reason) == (None, "")


def test_a_message_that_came_in_the_pause_is_delivered():
    channel_pause(channel="default")
    assert dequeue() == []
    enqueue("h")
    assert dequeue() == []
    channel_resume(channel="default")
    assert len(dequeue()) == 1


def test_its_limits_hold_after_the_pause():
    channel_set(channel="default", max_concurrency=2, release_interval=timedelta(minutes=1), release_burst=5)
    for _ in range(6):
        enqueue("h")
    dequeue()
    channel_pause(channel="default")
    dequeue()
    channel_resume(channel="default")
    assert [len(dequeue(limit=10)), len(dequeue(limit=10))] == [1, 0]


def test_an_edit_of_the_row_resumes_as_well():
    enqueue("h")
    channel_pause(channel="default")
    assert dequeue() == []
    Channel.objects.update(paused_at=None)
    assert len(dequeue()) == 1


def test_it_joins_the_line_with_the_others():
    channel_set(channel="other")
    for _ in range(4):
        enqueue("h")
        enqueue("h", channel="other")
    channel_pause(channel="default")
    dequeue()
    channel_resume(channel="default")
    assert Counter(delivery.channel for _ in range(4) for delivery in dequeue()) == {"default": 2, "other": 2}


def test_a_channel_that_was_not_paused_stays_as_it_is():
    enqueue("h")
    channel_resume(channel="default")
    assert len(dequeue(limit=10)) == 1
