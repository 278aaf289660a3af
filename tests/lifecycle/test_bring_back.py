"""The next dequeue brings back due messages and those of a dead consumer. No sweep and no tick runs here."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import cancel, channel_set, complete, dequeue, enqueue, heartbeat, pop
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.support.messages import live, places
from tests.support.moments import expire, pass_time
from tests.support.refusals import refused
from tests.support.sql import value

pytestmark = pytest.mark.django_db

AT_ONCE = timedelta(0)


def test_an_expired_lease_is_delivered_again():
    enqueue("h", backoff=AT_ONCE)
    [lost] = dequeue(worker="worker 7")
    expire(lost)
    [again] = dequeue()
    assert (again.id, again.attempt) == (lost.id, 2)
    assert again.token != lost.token
    [error] = Message.objects.get().errors
    assert (error["attempt"], error["type"], error["worker"]) == (1, "LeaseExpired", "worker 7")
    with refused(LeaseLost):
        complete(lost)
    complete(again)


def test_it_waits_for_its_back_off():
    enqueue("h", backoff=timedelta(minutes=1))
    expire(*dequeue())
    assert dequeue() == []
    assert Message.objects.get().status == Message.Status.SCHEDULED
    pass_time(minutes=1)
    assert [delivery.attempt for delivery in dequeue()] == [2]


def test_a_message_that_kills_each_consumer_becomes_poison():
    sent = enqueue("h", max_attempts=3, backoff=AT_ONCE)
    for attempt in (1, 2, 3):
        [delivery] = dequeue()
        assert delivery.attempt == attempt
        expire(delivery)
    assert dequeue() == []
    assert places(sent.id) == ["dead letters"]
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.attempts) == ("poison", 3)
    assert [error["type"] for error in letter.errors] == ["LeaseExpired"] * 3


def test_a_message_with_a_requested_cancel_goes_to_the_archive():
    sent = enqueue("h")
    [delivery] = dequeue()
    cancel([sent.id])
    expire(delivery)
    assert dequeue() == []
    assert ArchivedMessage.objects.get().outcome == "cancelled"


@pytest.mark.parametrize("verb", [dequeue, pop])
def test_a_call_with_room_brings_more(verb):
    """Ready messages come first, then those that came back in the same call."""
    later = enqueue("h", delay=timedelta(hours=1), priority=5)
    enqueue("h", backoff=AT_ONCE)
    [lost] = dequeue()
    waiting = enqueue("h")
    pass_time(hours=1)
    expire(lost)
    found = verb(limit=10)
    assert [delivery.id for delivery in found] == [waiting.id, later.id, lost.id]
    assert len({delivery.token for delivery in found}) == 1


def test_it_brings_back_a_part_at_a_time_the_longest_expired_first():
    for _ in range(40):
        enqueue("h", backoff=timedelta(hours=1))
    leased = dequeue(limit=40)
    expire(*leased[20:])
    pass_time(seconds=1)
    expire(*leased[:20])
    channel_set(channel="other")
    enqueue("h", channel="other")
    assert [delivery.channel for delivery in dequeue(limit=20)] == ["other"]
    back = set(Message.objects.filter(status=Message.Status.SCHEDULED).values_list("id", flat=True))
    assert len(back) == 16
    assert back < {delivery.id for delivery in leased[20:]}


def test_messages_that_come_back_in_one_call_keep_to_the_limit_of_their_channel():
    channel_set(channel="default", max_concurrency=3)
    for _ in range(3):
        enqueue("h", backoff=AT_ONCE)
    expire(*dequeue(limit=2))
    for _ in range(3):
        enqueue("h", delay=timedelta(hours=1))
    pass_time(hours=1)
    assert len(dequeue(limit=10)) == 3
    assert value("SELECT count(*) FROM pgqueue_message WHERE status = 2 AND lease_expires_at > clock_timestamp()") == 3


def test_a_worker_gets_its_own_message_back_when_its_heartbeat_is_surely_gone():
    """It may run the handler yet, and be late with the heartbeat only."""
    enqueue("h", backoff=timedelta(0))
    [lease] = dequeue(worker="worker 7")
    expire(lease)
    assert dequeue(worker="worker 7") == []
    heartbeat([lease], lease=timedelta(seconds=1))
    pass_time(seconds=2)
    assert dequeue(worker="worker 7") == []
    pass_time(seconds=4)
    [again] = dequeue(worker="worker 7")
    assert (again.id, again.attempt) == (lease.id, 2)


def test_it_leaves_other_queues_alone():
    """Its transaction may stay open, and no other call could bring back the messages that it holds."""
    channel_set(channel="default", queue="other")
    due = enqueue("h", queue="other", delay=timedelta(hours=1))
    pass_time(hours=1)
    assert dequeue() == []
    assert live(due.id, "status") == Message.Status.SCHEDULED
    assert len(dequeue("other")) == 1
