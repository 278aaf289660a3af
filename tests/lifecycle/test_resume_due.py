"""A pause that has an end: the sweep resumes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_pgqueue import (
    channel_pause,
    dequeue,
    enqueue,
    explain_channel,
    limit_pause,
    limit_set,
    queue_pause,
    sweep,
)
from django_pgqueue.lifecycle.upkeep import tick
from django_pgqueue.models import Channel, Queue, SharedLimit
from tests.support.moments import pass_time

pytestmark = pytest.mark.django_db


def in_an_hour():
    return timezone.now() + timedelta(hours=1)


def test_a_channel_is_resumed_when_its_time_has_come():
    enqueue("h")
    channel_pause(channel="default", reason="the bank is closed", until=in_an_hour())
    assert sweep().resumed == 0
    assert dequeue() == []
    pass_time(hours=2)
    assert sweep().resumed == 1
    channel = Channel.objects.get()
    assert (channel.paused_at, channel.paused_until, channel.pause_reason) == (None, None, "")
    assert len(dequeue()) == 1


def test_a_pause_ends_with_the_next_tick_and_waits_for_no_sweep():
    limit_set("api")
    enqueue("h", limits=["api"])
    channel_pause(channel="default", until=in_an_hour())
    queue_pause(until=in_an_hour())
    limit_pause("api", until=in_an_hour())
    pass_time(hours=2)
    SharedLimit.objects.update(paused_until=timezone.now() - timedelta(seconds=1))
    tick()
    assert len(dequeue()) == 1


def test_a_queue_is_resumed_when_its_time_has_come():
    enqueue("h")
    queue_pause(until=in_an_hour())
    assert sweep().resumed == 0
    pass_time(hours=2)
    assert dequeue() == []
    assert sweep().resumed == 1
    queue = Queue.objects.get()
    assert (queue.paused_at, queue.paused_until) == (None, None)
    assert len(dequeue()) == 1


def test_a_pause_without_an_end_stays():
    channel_pause(channel="default", until=in_an_hour())
    channel_pause(channel="default")
    queue_pause(until=in_an_hour())
    queue_pause()
    pass_time(hours=2)
    assert sweep().resumed == 0
    assert Channel.objects.get().paused_at


def test_the_explanation_says_until_when():
    channel_pause(channel="default", until=in_an_hour())
    queue_pause(until=in_an_hour())
    reasons = {reason.code: reason for reason in explain_channel(channel="default")}
    for code in ("channel_paused", "queue_paused"):
        assert " until " in reasons[code].sentence
        assert reasons[code].facts["until"]
