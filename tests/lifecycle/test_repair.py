"""The arguments of repair; tests/doctor/test_counters.py tries the repairs themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, complete, dequeue, enqueue
from django_pgqueue.lifecycle.upkeep import RepairCounts, repair
from tests.support.messages import places
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def test_a_queue_that_is_right_stays_as_it_is():
    channel_set(channel="sized", max_size=5)
    channel_set(channel="limited", max_concurrency=1, release_interval=timedelta(seconds=1))
    for channel in ("default", "sized", "limited"):
        enqueue("h", channel=channel)
        enqueue("h", channel=channel, delay=timedelta(hours=1))
    held = dequeue(limit=2)
    before = state()
    assert repair() == RepairCounts(0, 0, 0)
    assert state() == before
    complete(held)
    assert repair() == RepairCounts(0, 0, 0)
    assert [places(delivery.id) for delivery in held] == [["archive"]] * 2


def state() -> list[list[tuple[object, ...]]]:
    return [
        sql(f"SELECT t::text FROM pgqueue_{table} AS t") for table in ("lane", "arrival", "channel_size", "departure")
    ]


def test_no_more_channels_than_asked_for_are_mended():
    for name in ("a", "b", "c"):
        channel_set(channel=name, max_size=5)
        enqueue("h", channel=name)
    sql("UPDATE pgqueue_channel_size SET live = 4")
    assert repair(most=2).counts == 2
    assert repair().counts == 1
