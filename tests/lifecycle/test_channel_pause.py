from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_pause, channel_set, complete, dequeue, enqueue, heartbeat, peek, retry
from django_pgqueue.models import Channel
from tests.support.messages import places
from tests.support.moments import pass_time

pytestmark = pytest.mark.django_db


def test_nothing_more_is_delivered_and_enqueue_goes_on():
    enqueue("h")
    channel_pause(channel="default", reason="the bank is closed")
    assert enqueue("h").created
    assert dequeue(limit=10) == []
    assert len(peek(limit=10)) == 2
    channel = Channel.objects.get()
    assert channel.pause_reason == "the bank is closed"
    assert channel.paused_at


def test_a_message_that_was_leased_before_the_pause_may_be_settled():
    enqueue("h")
    [delivery] = dequeue()
    channel_pause(channel="default")
    heartbeat(delivery)
    complete(delivery)
    assert places(delivery.id) == ["archive"]


def test_retries_and_what_becomes_due_wait_too():
    enqueue("h")
    enqueue("h", delay=timedelta(minutes=1))
    [delivery] = dequeue()
    channel_pause(channel="default")
    retry(delivery, errors=[{}], delays=[timedelta(0)])
    pass_time(minutes=1)
    assert dequeue(limit=10) == []


def test_other_channels_go_on():
    channel_set(channel="other")
    enqueue("h")
    enqueue("h", channel="other")
    channel_pause(channel="default")
    assert [delivery.channel for delivery in dequeue(limit=10)] == ["other"]


def test_a_second_pause_keeps_the_moment_and_takes_the_new_reason():
    channel_pause(channel="default", reason="first")
    paused_at = Channel.objects.get().paused_at
    channel_pause(channel="default", reason="second")
    channel = Channel.objects.get()
    assert (channel.paused_at, channel.pause_reason) == (paused_at, "second")
