from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import (
    channel_pause,
    channel_release,
    channel_set,
    complete,
    defer,
    dequeue,
    enqueue,
    retry,
)
from django_pgqueue.exceptions import ChannelNotFound, ChannelReleased, InvalidMessage
from django_pgqueue.models import Channel
from tests.lifecycle.conftest import pass_time, refused, sql

pytestmark = pytest.mark.django_db


def fill(count: int, **fields) -> None:
    for n in range(count):
        enqueue("h", n, **fields)


def test_a_released_channel_takes_no_new_messages():
    channel_release("default")
    with refused(ChannelReleased, "released"):
        enqueue("h")


@pytest.mark.parametrize(
    "limits",
    [
        {"max_concurrency": 1},
        {"release_interval": timedelta(hours=1)},
        {"max_concurrency": 2, "release_interval": timedelta(hours=1)},
    ],
    ids=str,
)
def test_what_is_there_drains_without_limits(limits: dict[str, object]):
    channel_set("default", **limits)
    fill(6)
    taken = dequeue(limit=10)
    assert len(taken) < 6
    assert dequeue(limit=10) == []
    channel_release("default")
    taken += dequeue(limit=10)
    assert [delivery.payload for delivery in taken] == list(range(6))


def test_a_pause_does_not_stop_it_from_draining():
    fill(2)
    channel_pause("default")
    assert dequeue(limit=10) == []
    channel_release("default")
    assert len(dequeue(limit=10)) == 2


def test_scheduled_deferred_and_retried_messages_drain_too():
    fill(1, delay=timedelta(hours=1))
    fill(2)
    one, two = dequeue(limit=2)
    channel_release("default")
    defer(one, delay=timedelta(minutes=1))
    retry(two, errors=[{}], delays=[timedelta(minutes=1)])
    pass_time(hours=1)
    assert len(dequeue(limit=10)) == 3


def test_the_moment_of_the_first_release_counts():
    channel_release("default")
    first = Channel.objects.get().released_at
    channel_release("default")
    assert Channel.objects.get().released_at == first


def test_setting_it_again_opens_it_with_its_limits():
    channel_set("default", max_concurrency=1)
    channel_release("default")
    channel_set("default")
    fill(3)
    assert len(dequeue(limit=10)) == 1
    complete([])


@pytest.mark.parametrize(
    ("name", "queue"), [("nowhere", "default"), ("default", "emails"), ("x" * 300, "default"), ("", "")]
)
def test_an_unknown_channel_is_refused(name: str, queue: str):
    with refused(ChannelNotFound):
        channel_release(name, queue)


def test_a_name_that_is_not_text_is_refused():
    with refused(InvalidMessage):
        channel_release("a\0b")


def test_it_is_a_function_of_the_database_too():
    sql("SELECT pgqueue_channel_release('default', p_queue => 'default')")
    assert Channel.objects.get().released_at
