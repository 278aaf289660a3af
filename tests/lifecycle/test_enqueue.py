from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import DatabaseError, transaction

from django_pgqueue import aenqueue, dequeue, enqueue
from django_pgqueue.exceptions import ChannelNotFound, InvalidMessage
from django_pgqueue.models import Channel, Message
from tests.support.cases import cases
from tests.support.messages import live
from tests.support.moments import pass_time
from tests.support.refusals import refusal, refused
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db

READY, LEASED, SCHEDULED = Message.Status.READY, Message.Status.LEASED, Message.Status.SCHEDULED


def test_a_message_arrives_as_it_was_sent():
    sent = enqueue(
        "greet",
        {"name": "Ada"},
        body=b"\x00raw",
        headers={"trace": "abc"},
        priority=7,
        max_attempts=3,
        backoff=timedelta(seconds=2),
    )
    [delivery] = dequeue()
    assert sent.created
    assert (delivery.id, delivery.handler, delivery.queue, delivery.channel) == (sent.id, "greet", "default", "default")
    assert (delivery.payload, delivery.body, delivery.headers) == ({"name": "Ada"}, b"\x00raw", {"trace": "abc"})
    assert (delivery.priority, delivery.max_attempts, delivery.attempt) == (7, 3, 1)
    assert live(sent.id, "backoff") == timedelta(seconds=2)


def test_dates_decimals_and_uuids_become_text():
    unique = uuid4()
    enqueue("h", {"at": datetime(2013, 1, 1, tzinfo=UTC), "price": Decimal("1.10"), "id": unique})
    [delivery] = dequeue()
    assert delivery.payload == {"at": "2013-01-01T00:00:00Z", "price": "1.10", "id": str(unique)}


@cases("name", ["nowhere", "x" * 300, "", "Default", "default "])
def test_an_unknown_channel_is_refused_and_the_error_says_what_to_do(name: str):
    with refused(ChannelNotFound, "does not exist") as raised:
        enqueue("h", channel=name)
    assert "channel_set" in raised.value.hint


def test_missing_channels_are_created_where_the_project_wants_that(settings):
    settings.DJANGO_PGQUEUE = {"AUTO_CREATE_CHANNELS": True}
    enqueue("h", channel="new", queue="emails")
    enqueue("h", channel="new", queue="emails")
    assert Channel.objects.get(queue="emails").name == "new"
    assert len(dequeue("emails", 10)) == 2
    with refused(InvalidMessage, "1 to 200"):
        enqueue("h", channel="x" * 201)


def test_an_infinite_time_is_refused():
    assert "years 2 to 9998" in refusal("pgqueue_enqueue('h', p_dequeue_at => 'infinity')")["message"]
    with refused(DatabaseError, "years 2 to 9998"):
        sql(
            "INSERT INTO pgqueue_message (channel_id, handler, dequeue_at)"
            " SELECT id, 'h', 'infinity' FROM pgqueue_channel"
        )


# A message is there if and only if the transaction commits.


@pytest.mark.django_db(transaction=True)
def test_no_session_sees_a_message_before_the_commit(connect):
    other = connect(autocommit=True)
    with transaction.atomic():
        enqueue("h")
        assert other.execute("SELECT id FROM pgqueue_dequeue()").fetchall() == []
    assert len(other.execute("SELECT id FROM pgqueue_dequeue()").fetchall()) == 1


# Scheduling, by the database clock.


def test_a_delay_is_counted_by_the_database_clock():
    sent = enqueue("h", delay=timedelta(minutes=10))
    assert live(sent.id, "dequeue_at - created_at BETWEEN '599 seconds' AND '601 seconds'")
    assert live(sent.id, "status") == SCHEDULED
    assert dequeue() == []
    pass_time(minutes=9, seconds=55)
    assert dequeue() == []
    pass_time(seconds=5)
    [delivery] = dequeue()
    assert delivery.id == sent.id


@pytest.mark.parametrize(
    "given", [{"dequeue_at": datetime(1970, 1, 1, tzinfo=UTC)}, {"delay": timedelta(0)}, {"delay": timedelta(-1)}]
)
def test_a_moment_that_has_passed_means_now(given: dict[str, object]):
    enqueue("h", **given)
    assert len(dequeue()) == 1


@pytest.mark.django_db(transaction=True)
def test_a_delay_starts_when_it_is_asked_for_and_not_when_the_transaction_began():
    with transaction.atomic():
        value("SELECT now() FROM pg_sleep(0.05)")
        sent = enqueue("h", delay=timedelta(milliseconds=20))
        assert live(sent.id, "dequeue_at > now() + interval '60 milliseconds'")


# The other ways to call it.


def test_the_policy_of_the_settings_applies_when_nothing_else_is_said(settings):
    settings.DJANGO_PGQUEUE = {"MAX_ATTEMPTS": 9}
    assert live(enqueue("h").id, "max_attempts") == 9
    assert live(enqueue("h", max_attempts=2).id, "max_attempts") == 2


async def send() -> None:
    await aenqueue("h", {"sent": "from a coroutine"})


def test_a_coroutine_can_enqueue():
    from asgiref.sync import async_to_sync

    async_to_sync(send)()
    [delivery] = dequeue()
    assert delivery.payload == {"sent": "from a coroutine"}
