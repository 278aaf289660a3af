"""Any INSERT enqueues: the ORM, plain SQL, COPY."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import JSONField, Value
from django.utils import timezone

from django_pgqueue import channel_release, channel_set, complete, dequeue, enqueue
from django_pgqueue.exceptions import ChannelNotFound, ChannelReleased, InvalidMessage
from django_pgqueue.models import Channel, Message
from tests.lifecycle.test_enqueue import READY, SCHEDULED
from tests.support.cases import cases
from tests.support.moments import pass_time
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def test_bulk_create_enqueues():
    channel = Channel.objects.get()
    Message.objects.bulk_create(Message(channel=channel, handler="h", payload=n) for n in range(30))
    assert [delivery.payload for delivery in dequeue(limit=100)] == list(range(30))


@cases("column", ["payload", "headers"])
@cases(
    ("value", "problem"),
    [
        ("canary" * 3_000_000, "the {} takes .* more than the setting MAX_PAYLOAD allows"),
        ("canary \0", "the {} contains the character"),
        ("canary \ud800", "the {} contains half a surrogate pair"),
        ([float("nan"), "canary"], "something in the {} is not JSON"),
    ],
)
@cases("many", [False, True])
def test_json_that_the_verb_refuses_is_not_sent_by_the_orm_and_not_quoted(
    column: str, value: Any, problem: str, many: bool
):
    message = Message(channel=Channel.objects.get(), handler="h", **{column: {"n": value}})
    with refused(InvalidMessage, problem.format(column)) as raised, transaction.atomic():
        Message.objects.bulk_create([message]) if many else message.save()
    assert "canary" not in str(raised.value)
    assert not Message.objects.exists()


def test_the_orm_stores_null_and_what_the_verb_stores():
    channel = Channel.objects.get()
    Message.objects.create(channel=channel, handler="h", payload=Value(None, JSONField()), headers=None)
    Message.objects.create(channel=channel, handler="h", payload={"at": datetime(2026, 1, 1, tzinfo=UTC)})
    assert Message.objects.filter(payload={"at": "2026-01-01T00:00:00Z"}).count() == 1
    assert Message.objects.filter(payload__at="2026-01-01T00:00:00Z").count() == 1
    assert [delivery.payload for delivery in dequeue(limit=9)] == [None, {"at": "2026-01-01T00:00:00Z"}]


def test_an_insert_into_many_channels_reaches_them_all():
    names = [f"channel {n}" for n in range(5)]
    for name in names:
        channel_set(channel=name)
    sql("INSERT INTO pgqueue_message (channel_id, handler) SELECT id, 'h' FROM pgqueue_channel WHERE name <> 'default'")
    assert sorted(delivery.channel for delivery in dequeue(limit=10)) == names


@pytest.mark.parametrize("how", ["orm", "sql", "copy"])
def test_a_plain_insert_for_later_is_scheduled(how: str):
    channel, later = Channel.objects.get(), timezone.now() + timedelta(hours=1)
    match how:
        case "orm":
            Message.objects.bulk_create(
                Message(channel=channel, handler=h, dequeue_at=at) for h, at in later_and_now(later)
            )
        case "sql":
            sql(
                "INSERT INTO pgqueue_message (channel_id, handler, dequeue_at)"
                " VALUES (%s, 'later', %s), (%s, 'now', clock_timestamp())",
                channel.pk, later, channel.pk,
            )  # fmt: skip
        case "copy":
            into = "COPY pgqueue_message (channel_id, handler, dequeue_at) FROM STDIN"
            with connection.cursor() as cursor, cursor.copy(into) as copy:
                for handler, at in later_and_now(later):
                    copy.write_row((channel.pk, handler, at))
    assert dict(Message.objects.values_list("handler", "status")) == {"now": READY, "later": SCHEDULED}
    deliveries = dequeue(limit=10)
    assert [delivery.handler for delivery in deliveries] == ["now"]
    # Its lease would expire, and a back-off with full jitter may be as good as none.
    complete(deliveries)
    pass_time(hours=1)
    assert [delivery.handler for delivery in dequeue(limit=10)] == ["later"]


def later_and_now(later: datetime) -> list[tuple[str, datetime]]:
    return [("later", later), ("now", timezone.now())]


def test_an_insert_for_a_channel_that_does_not_exist_is_refused():
    with refused(DatabaseError, "does not exist") as raised:
        sql("INSERT INTO pgqueue_message (channel_id, handler) VALUES (-1, 'h')")
    assert raised.value.__cause__.sqlstate == ChannelNotFound.sqlstate


def test_a_released_channel_refuses_every_insert():
    channel_release(channel="default")
    with refused(ChannelReleased, "released") as raised:
        enqueue("h")
    assert "channel_set" in raised.value.hint
    with refused(DatabaseError, "released"):
        Message.objects.create(channel=Channel.objects.get(), handler="h")
    assert not Message.objects.exists()
