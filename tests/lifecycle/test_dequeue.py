from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_pgqueue import channel_purge, channel_set, defer, dequeue, enqueue, pop, retry
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Channel, Message
from tests.support.cases import cases
from tests.support.messages import enqueue_backlog, live
from tests.support.moments import a_moment_of_the_database, expire, pass_time
from tests.support.refusals import refused
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db


# The lease.


def test_a_delivery_is_a_lease():
    sent = enqueue("h")
    before = a_moment_of_the_database()
    [delivery] = dequeue(lease=timedelta(minutes=2), worker="me")
    after = a_moment_of_the_database()
    assert before + timedelta(minutes=2) <= delivery.lease_expires_at <= after + timedelta(minutes=2)
    assert live(sent.id, "status", "worker", "lease_token") == (Message.Status.LEASED, "me", delivery.token)
    assert live(sent.id, "lease_expires_at - leased_at") == timedelta(minutes=2)


def test_the_setting_says_how_long_a_lease_is(settings):
    settings.DJANGO_PGQUEUE = {"LEASE": timedelta(seconds=77)}
    [sent] = [enqueue("h")]
    dequeue()
    assert live(sent.id, "lease_expires_at - leased_at") == timedelta(seconds=77)


def test_the_last_attempt_is_known():
    enqueue("h", max_attempts=1)
    [delivery] = dequeue()
    assert delivery.last_attempt


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_is_given_in_an_old_transaction_is_not_born_expired():
    enqueue("h")
    with transaction.atomic():
        value("SELECT now() FROM pg_sleep(0.06)")
        [delivery] = dequeue(lease=timedelta(milliseconds=50))
        assert delivery.lease_expires_at > value("SELECT now() + interval '100 milliseconds'")


@cases(
    "arguments",
    [
        {"limit": 0}, {"limit": -1}, {"limit": 10_001}, {"limit": 2**40},
        {"lease": timedelta(0)}, {"lease": timedelta(-1)}, {"lease": timedelta.max}, {"lease": 15},
        {"queue": None}, {"queue": "a\0b"}, {"worker": "\ud800"}, {"worker": "w" * 300},
    ],
)  # fmt: skip
def test_nonsense_is_refused(arguments: dict[str, object]):
    enqueue("h")
    with refused(InvalidMessage), transaction.atomic():
        dequeue(**arguments)
    assert len(dequeue()) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_another_isolation_level_is_refused_and_the_error_says_why(level: str):
    enqueue("h")
    with refused(InvalidMessage, f"READ COMMITTED.*{level}") as raised, transaction.atomic():
        sql(f"SET TRANSACTION ISOLATION LEVEL {level}")
        dequeue()
    assert "transaction of its own" in raised.value.hint
    assert len(dequeue()) == 1


# Order within a channel.


def test_messages_are_first_in_first_out():
    for n in range(40):
        enqueue("h", n)
    assert [delivery.payload for _ in range(4) for delivery in dequeue(limit=10)] == list(range(40))


@pytest.mark.parametrize("limit", [1, 3])
def test_a_higher_priority_is_served_first(limit: int):
    for priority in (-1, 0, 7, 0, 32767):
        enqueue("h", priority=priority)
    got = [delivery.priority for _ in range(5) for delivery in dequeue(limit=limit)]
    assert got == [32767, 7, 0, 0, -1]


def test_a_higher_priority_passes_those_that_already_stand_in_line():
    enqueue_backlog("default", 20)
    dequeue(limit=2)
    enqueue("h", "urgent", priority=1)
    assert [delivery.payload for _ in range(3) for delivery in dequeue()] == ["urgent", 2, 3]


def test_the_order_holds_when_a_message_that_was_announced_has_gone():
    enqueue("h", "gone", priority=9)
    for priority in (0, 5, 3):
        enqueue("h", priority=priority)
    assert channel_purge(channel="default", limit=1) == 1
    assert [delivery.priority for delivery in dequeue(limit=10)] == [5, 3, 0]


def test_an_earlier_moment_comes_before_an_earlier_id():
    channel = Channel.objects.get()
    now = timezone.now()
    for seconds in (1, 3, 2):
        Message.objects.create(
            channel=channel, handler="h", payload=seconds, dequeue_at=now - timedelta(seconds=seconds)
        )
    assert [delivery.payload for _ in range(3) for delivery in dequeue()] == [3, 2, 1]


def test_due_messages_are_found_without_any_maintenance():
    enqueue("h", "second", delay=timedelta(minutes=2))
    enqueue("h", "first", delay=timedelta(minutes=1))
    enqueue("h", "not yet", delay=timedelta(hours=1))
    pass_time(minutes=2)
    assert [delivery.payload for delivery in dequeue(limit=10)] == ["first", "second"]


# Waiting. Longer than any test may take:
LONG = 3600


@pytest.mark.django_db(transaction=True)
def test_a_wait_ends_when_a_message_comes(connect):
    enqueue("h", delay=timedelta(milliseconds=500))
    [delivery] = dequeue(wait=LONG)
    assert delivery.handler == "h"


@pytest.mark.django_db(transaction=True)
def test_a_wait_ends_when_its_time_is_up():
    began = time.monotonic()
    assert dequeue(wait=0.2) == []
    assert time.monotonic() - began >= 0.2


def test_inside_a_transaction_no_call_waits():
    assert connection.in_atomic_block
    assert dequeue(wait=LONG) == []


def test_a_delivery_brings_the_context_of_its_channel():
    channel_set(channel="acme")
    Channel.objects.filter(name="acme").update(context={"tenant": 7, "region": "eu"})
    enqueue("h", channel="acme", headers={"region": "us"})
    enqueue("h")
    by_channel = {delivery.channel: delivery for delivery in dequeue(limit=2)}
    assert by_channel["acme"].channel_context == {"tenant": 7, "region": "eu"}
    assert by_channel["acme"].context == {"tenant": 7, "region": "eu"}
    assert (by_channel["default"].channel_context, by_channel["default"].context) == ({}, {})


def test_it_says_when_the_message_was_leased_before():
    enqueue("h", backoff=timedelta(0))
    [first] = dequeue()
    assert first.last_leased_at is None
    began = live(first.id, "leased_at")
    retry(first, errors=[{}])
    [second] = dequeue()
    assert second.last_leased_at == began
    began = live(first.id, "leased_at")
    defer(second)
    [third] = dequeue()
    assert (third.attempt, third.last_leased_at) == (2, began)
    began = live(first.id, "leased_at")
    expire(third)
    [fourth] = pop()
    assert fourth.last_leased_at == began
