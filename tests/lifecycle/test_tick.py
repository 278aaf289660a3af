from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import NewMessage, channel_set, complete, dequeue, enqueue, enqueue_many
from django_pgqueue.lifecycle.upkeep import tick
from django_pgqueue.models import Message
from tests.support.messages import live
from tests.support.moments import pass_time
from tests.support.sql import sql, value
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db


def test_it_promotes_what_is_due_and_says_how_many():
    enqueue("h", delay=timedelta(hours=2))
    due = [enqueue("h", delay=timedelta(hours=1)).id for _ in range(3)]
    assert tick() == 0
    pass_time(hours=1)
    assert tick() == 3
    assert set(Message.objects.filter(status=Message.Status.READY).values_list("id", flat=True)) == set(due)
    assert tick() == 0


def test_it_promotes_a_part_at_a_time_the_longest_due_first():
    later, sooner = enqueue("h", delay=timedelta(hours=2)), enqueue("h", delay=timedelta(hours=1))
    pass_time(hours=2)
    assert tick(1) == 1
    assert live(sooner.id, "status") == Message.Status.READY
    assert live(later.id, "status") == Message.Status.SCHEDULED
    assert tick(1) == 1


@pytest.mark.django_db(transaction=True)
def test_no_message_is_lost_when_ticks_run_between_all_steps():
    for name in "abc":
        channel_set(channel=name, max_concurrency=2, weight=2)
    for n in range(30):
        enqueue("h", n, channel="abc"[n % 3])
        tick()
    seen: list[int] = []
    while deliveries := dequeue(limit=4):
        tick()
        seen += [delivery.payload for delivery in deliveries]
        complete(deliveries)
        tick()
    assert sorted(seen) == list(range(30))


@pytest.mark.django_db(transaction=True)
def test_messages_that_a_long_transaction_commits_late_are_found(connect):
    slow = connect()
    slow.execute("SELECT pgqueue_enqueue('slow')")
    for _ in range(5):
        enqueue("quick")
        assert [delivery.handler for delivery in dequeue(limit=10)] == ["quick"]
        tick()
    assert value("SELECT arrival_xid > '0' FROM pgqueue_floor ORDER BY id DESC LIMIT 1")
    slow.commit()
    assert [delivery.handler for delivery in dequeue(limit=10)] == ["slow"]


@pytest.mark.django_db(transaction=True)
def test_only_one_ticks_at_a_time_and_no_other_waits(connect):
    enqueue("h", delay=timedelta(hours=1))
    pass_time(hours=1)
    other = connect()
    assert other.execute("SELECT pgqueue_tick()").fetchall() == [(1,)]
    assert tick() == 0
    other.commit()


@pytest.mark.django_db(transaction=True)
def test_it_raises_the_floors_and_keeps_few_of_them():
    def floors() -> tuple[object, ...]:
        return sql("SELECT arrival_xid::text::bigint, lane_seq, ticked_at FROM pgqueue_floor ORDER BY id DESC LIMIT 1")[
            0
        ]

    before = floors()
    for _ in range(30):
        enqueue_many(NewMessage(handler="h") for _ in range(3))
        complete(dequeue(limit=3))
        tick()
    assert all(now > then for now, then in zip(floors(), before, strict=True))
    assert value("SELECT count(*) FROM pgqueue_floor") <= 12


@pytest.mark.django_db(transaction=True)
def test_while_nothing_happens_it_writes_each_five_seconds_only():
    """Other databases of the server count, too, so that it tries for a while."""

    def ticked() -> bool:
        before = value("SELECT max(id) FROM pgqueue_floor")
        tick()
        return value("SELECT max(id) FROM pgqueue_floor") > before

    eventually(lambda: not ticked())
    enqueue("h")
    assert ticked()
    assert [delivery.handler for delivery in dequeue(limit=10)] == ["h"]
    eventually(lambda: not ticked())
    eventually(ticked)
