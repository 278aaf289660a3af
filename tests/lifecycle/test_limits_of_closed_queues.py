"""A message that was promoted, and whose queue is not served, keeps no place of a shared limit from other queues."""

from __future__ import annotations

import pytest

from django_pgqueue import channel_set, dequeue, enqueue, limit_set, queue_pause, queue_set
from django_pgqueue.lifecycle.upkeep import tick

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _queues() -> None:
    """A message of a queue waits for the limit; the limit has one place."""
    channel_set(channel="a", queue="closed")
    channel_set(channel="b", queue="open")
    limit_set("stripe", max_concurrency=1)


def delivered(queue: str) -> int:
    found = 0
    for _ in range(4):
        tick()
        found += len(dequeue(queue=queue, limit=5))
    return found


def test_a_paused_queue_keeps_no_place_of_a_shared_limit() -> None:
    queue_pause("closed")
    enqueue("h", channel="a", queue="closed", limits=["stripe"])
    tick()
    enqueue("h", channel="b", queue="open", limits=["stripe"])
    assert delivered("open") == 1


def test_a_queue_at_its_max_concurrency_keeps_no_place_of_a_shared_limit() -> None:
    queue_set("closed", max_concurrency=1)
    enqueue("h", channel="a", queue="closed")
    assert delivered("closed") == 1
    enqueue("h", channel="a", queue="closed", limits=["stripe"])
    tick()
    enqueue("h", channel="b", queue="open", limits=["stripe"])
    assert delivered("open") == 1


def test_a_queue_at_its_rate_keeps_no_place_of_a_shared_limit() -> None:
    queue_set("closed", rate="1/h")
    enqueue("h", channel="a", queue="closed")
    assert delivered("closed") == 1
    enqueue("h", channel="a", queue="closed", limits=["stripe"])
    tick()
    enqueue("h", channel="b", queue="open", limits=["stripe"])
    assert delivered("open") == 1
