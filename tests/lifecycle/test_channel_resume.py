from __future__ import annotations

import pytest

from django_pgqueue import channel_pause, channel_resume, dequeue, enqueue
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


def test_an_edit_of_the_row_resumes_as_well():
    enqueue("h")
    channel_pause(channel="default")
    assert dequeue() == []
    Channel.objects.update(paused_at=None)
    assert len(dequeue()) == 1
