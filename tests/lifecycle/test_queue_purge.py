from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, enqueue, queue_purge
from django_pgqueue.models import ArchivedMessage, Message
from tests.support.messages import places

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channels() -> None:
    for name in "abc":
        channel_set(channel=name, queue="mails", max_size=50)


def fill_three_channels() -> list[int | None]:
    sent = [enqueue("h", name, channel=name, queue="mails") for name in "aabbc"]
    sent += [enqueue("h", name, channel=name, queue="mails", delay=timedelta(hours=1)) for name in "ac"]
    return [answer.id for answer in sent]


def test_waiting_messages_of_all_channels_of_the_queue_go_to_the_archive_as_purged():
    ids = fill_three_channels()
    kept = enqueue("h")
    later = enqueue("h", delay=timedelta(hours=1))
    assert queue_purge(queue="mails") == 7
    found = ArchivedMessage.objects.order_by("id").values_list("id", "queue", "channel", "outcome")
    assert list(found) == [(pk, "mails", name, "purged") for pk, name in zip(ids, "aabbcac", strict=True)]
    assert places(kept.id) == places(later.id) == ["live"]
    assert queue_purge(queue="mails") == 0


def test_it_purges_a_part_at_a_time():
    fill_three_channels()
    assert [queue_purge(queue="mails", limit=3) for _ in range(4)] == [3, 3, 1, 0]
    assert Message.objects.count() == 0


def test_room_is_given_back():
    channel_set(channel="a", queue="mails", max_size=3)
    fill_three_channels()
    queue_purge(queue="mails")
    assert [enqueue("h", channel="a", queue="mails").created for _ in range(3)] == [True] * 3
