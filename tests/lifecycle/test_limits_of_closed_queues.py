"""A message that was promoted, and whose queue is not served, keeps no place of a shared limit from other queues."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize("limits", [None, {"max_concurrency": 1}, {"rate": "1/h"}])
def test_a_queue_that_is_paused_or_at_a_limit_keeps_no_place_of_a_shared_limit(limits: dict[str, Any] | None) -> None:
    if limits is None:
        queue_pause("closed")
    else:
        queue_set("closed", **limits)
        enqueue("h", channel="a", queue="closed")
        assert delivered("closed") == 1
    enqueue("h", channel="a", queue="closed", limits=["stripe"])
    tick()
    enqueue("h", channel="b", queue="open", limits=["stripe"])
    assert delivered("open") == 1
