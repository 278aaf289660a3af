from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, complete, defer, dequeue, enqueue, retry
from django_pgqueue.lifecycle.figures import held_channels
from tests.support.moments import pass_time

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _channels() -> None:
    """Two ordered channels in two queues, with two messages each."""
    for queue, channel in (("default", "invoices"), ("mails", "news")):
        channel_set(channel=channel, queue=queue, ordered=True)
        for _ in range(2):
            enqueue("h", channel=channel, queue=queue)


def test_a_channel_in_its_order_is_not_held() -> None:
    [running] = dequeue(limit=5)
    assert held_channels() == []
    complete(running)
    assert held_channels() == []


def test_a_failing_message_holds_its_channel_from_its_first_failure_until_it_is_settled() -> None:
    [first] = dequeue(limit=5)
    retry(first, errors=[{}], delays=[timedelta(0)])
    pass_time(minutes=10)
    [again] = dequeue(limit=5)
    [row] = held_channels()
    assert (row.held_until, row.attempts) == (None, 2), "it holds the channel while it runs again"
    retry(again, errors=[{}], delays=[HOUR])
    [row] = held_channels()
    assert (row.queue, row.channel, row.message_id, row.handler) == ("default", "invoices", first.id, "h")
    assert (row.attempts, row.max_attempts, row.behind) == (2, 5, True)
    assert timedelta(minutes=10) <= row.age < timedelta(minutes=11)
    assert row.held_until is not None
    pass_time(hours=1)
    complete(dequeue(limit=5))
    assert held_channels() == []


def test_a_deferred_message_holds_its_channel_too() -> None:
    [first] = dequeue(queue="mails", limit=5)
    defer(first, delay=HOUR)
    assert [(row.queue, row.message_id) for row in held_channels()] == [("mails", first.id)]
    assert held_channels("default") == []


def test_the_longest_comes_first_and_no_more_channels_are_looked_at_than_asked() -> None:
    for queue in ("mails", "default"):
        retry(dequeue(queue=queue, limit=5), errors=[{}], delays=[HOUR])
        pass_time(minutes=1)
    assert [row.channel for row in held_channels()] == ["news", "invoices"]
    assert len(held_channels(most=1)) == 1
