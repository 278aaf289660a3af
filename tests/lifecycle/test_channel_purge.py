from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import NewMessage, channel_purge, channel_set, complete, dequeue, enqueue, enqueue_many
from django_pgqueue.models import ArchivedMessage, Message
from tests.support.messages import places

pytestmark = pytest.mark.django_db


def test_ready_and_scheduled_messages_go_to_the_archive_as_purged():
    ready, later = enqueue("h", {"n": 1}), enqueue("h", delay=timedelta(hours=1))
    assert channel_purge(channel="default") == 2
    assert places(ready.id) == places(later.id) == ["archive"]
    assert set(ArchivedMessage.objects.values_list("outcome", "attempts")) == {("purged", 0)}
    assert ArchivedMessage.objects.get(pk=ready.id).payload == {"n": 1}
    assert dequeue() == []


def test_leased_messages_are_left_to_their_holder():
    enqueue("h", "first")
    [held] = dequeue()
    enqueue("h", "second")
    assert channel_purge(channel="default") == 1
    assert places(held.id) == ["live"]
    assert complete(held) == {held.id}


def test_other_channels_are_left_alone():
    channel_set(channel="other")
    channel_set(channel="default", queue="emails")
    enqueue("h")
    kept = [enqueue("h", channel="other"), enqueue("h", queue="emails")]
    assert channel_purge(channel="default") == 1
    assert set(Message.objects.values_list("id", flat=True)) == {answer.id for answer in kept}


def test_it_purges_a_part_at_a_time_the_oldest_first():
    answers = enqueue_many(NewMessage(handler="h") for _ in range(5))
    assert [channel_purge(channel="default", limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert places(answers[0].id) == ["archive"]


def test_a_purge_frees_room_and_keys():
    channel_set(channel="default", max_size=2)
    enqueue("h", dedupe_key="k")
    enqueue("h")
    channel_purge(channel="default")
    assert enqueue("h", dedupe_key="k").created
    assert enqueue("h").created


@pytest.mark.django_db(transaction=True)
def test_a_message_that_a_dequeue_is_taking_is_not_purged(connect):
    enqueue("h")
    other = connect()
    taken = other.execute("SELECT id FROM pgqueue_dequeue()").fetchall()
    assert channel_purge(channel="default") == 0
    other.commit()
    assert places(taken[0][0]) == ["live"]
