from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_pgqueue import NewMessage, channel_release, channel_set, enqueue, enqueue_many
from django_pgqueue.exceptions import ChannelFull, ChannelNotFound, ChannelReleased, InvalidMessage
from django_pgqueue.models import Message
from tests.support.cases import cases
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def outcomes(answers) -> list[str]:
    return [answer.outcome for answer in answers]


def test_answers_come_in_the_order_of_the_messages():
    channel_set(channel="a")
    channel_set(channel="b")
    answers = enqueue_many(NewMessage(handler=f"h{n}", channel="ba"[n % 2], payload=n) for n in range(20))
    stored = {
        message.pk: (message.handler, message.payload, message.channel.name)
        for message in Message.objects.select_related("channel")
    }
    assert [stored[answer.id] for answer in answers] == [(f"h{n}", n, "ba"[n % 2]) for n in range(20)]
    assert all(answer.created for answer in answers)


@cases("queues", [("default",), ("default", "emails")])
@cases("channels", [1, 3, 150])
def test_ids_grow_in_the_order_given_on_any_number_of_channels(queues: tuple[str, ...], channels: int) -> None:
    """Few channels of one queue are looked up together, and any others one by one."""
    places = [(queue, f"c{number}") for queue in queues for number in range(channels)]
    for queue, channel in places:
        channel_set(queue=queue, channel=channel)
    wanted = [places[number * 7 % len(places)] for number in range(2 * len(places))]
    answers = enqueue_many(NewMessage(handler="h", queue=queue, channel=channel) for queue, channel in wanted)
    ids = [answer.id for answer in answers]
    assert ids == sorted(ids)
    found = Message.objects.select_related("channel").in_bulk(ids)
    assert [(found[each].channel.queue, found[each].channel.name) for each in ids] == wanted


def test_each_message_keeps_its_own_fields():
    later = datetime(2100, 1, 1, tzinfo=UTC)
    everything = NewMessage(
        handler="a", payload={"n": 1}, body=b"\x00", headers={"x": 1}, priority=3, dequeue_at=later, max_attempts=2,
        backoff=timedelta(seconds=9),
    )  # fmt: skip
    full, bare, delayed = enqueue_many(
        [everything, NewMessage(handler="b"), NewMessage(handler="c", delay=timedelta(hours=1))]
    )
    found = Message.objects.in_bulk([full.id, bare.id, delayed.id])
    assert message_fields(found[full.id]) == ("a", {"n": 1}, b"\x00", {"x": 1}, 3, 2, timedelta(seconds=9), "SCHEDULED")
    assert message_fields(found[bare.id]) == ("b", {}, None, None, 0, 5, None, "READY")
    assert message_fields(found[delayed.id]) == ("c", {}, None, None, 0, 5, None, "SCHEDULED")
    assert found[full.id].dequeue_at == later


def message_fields(message: Message) -> tuple[object, ...]:
    return (
        message.handler, message.payload, None if message.body is None else bytes(message.body), message.headers,
        message.priority, message.max_attempts, message.backoff, Message.Status(message.status).name,
    )  # fmt: skip


@cases(
    ("bad", "error"),
    [
        (NewMessage(handler=""), InvalidMessage),
        (NewMessage(handler="h", priority=40_000), InvalidMessage),
        (NewMessage(handler="h", max_attempts=0), InvalidMessage),
        (NewMessage(handler="h", payload={1}), InvalidMessage),
        (NewMessage(handler="h", dequeue_at=datetime(2100, 1, 1)), InvalidMessage),  # noqa: DTZ001
        (NewMessage(handler="h", dequeue_at=datetime(2100, 1, 1, tzinfo=UTC), delay=timedelta(1)), InvalidMessage),
        (NewMessage(handler="h", backoff=timedelta(-1)), InvalidMessage),
        (NewMessage(handler="h", dedupe_key="x" * 300), InvalidMessage),
        (NewMessage(handler="h", channel="nowhere"), ChannelNotFound),
        (NewMessage(handler="h", channel="x" * 300), ChannelNotFound),
        (NewMessage(handler="h", channel="released"), ChannelReleased),
        (NewMessage(handler="h", channel="small"), ChannelFull),
    ],
)
def test_one_bad_message_and_none_is_taken(bad: NewMessage, error: type[Exception]):
    channel_set(channel="released")
    channel_release(channel="released")
    channel_set(channel="small", max_size=1)
    enqueue("h", channel="small")
    for messages in ([NewMessage(handler="h"), bad], [bad, NewMessage(handler="h", dedupe_key="k")]):
        with refused(error):
            enqueue_many(messages)
    assert Message.objects.count() == 1


def test_the_caller_learns_which_messages_a_full_channel_dropped():
    channel_set(channel="small", max_size=2, full_policy="drop")
    answers = enqueue_many(
        NewMessage(handler="h", channel=name) for name in ("small", "default", "small", "small", "default")
    )
    assert outcomes(answers) == ["created", "created", "created", "dropped", "created"]
    assert answers[3].id is None
    assert Message.objects.filter(channel__name="small").count() == 2


def test_each_message_of_a_statement_takes_room():
    channel_set(channel="small", max_size=5)
    enqueue("h", channel="small")
    enqueue_many(NewMessage(handler="h", channel="small") for _ in range(3))
    with refused(ChannelFull, "holds 4 of 5 messages; 2 more do not fit"):
        enqueue_many(NewMessage(handler="h", channel="small") for _ in range(2))
    assert outcomes(enqueue_many([NewMessage(handler="h", channel="small")])) == ["created"]
    with refused(ChannelFull, "5 of 5"):
        enqueue("h", channel="small")


def test_duplicates_are_found_in_the_table_and_in_the_call_itself():
    there = enqueue("h", dedupe_key="old")
    answers = enqueue_many(
        [
            NewMessage(handler="z", dedupe_key="new"),
            NewMessage(handler="h", dedupe_key="old"),
            NewMessage(handler="a", dedupe_key="new"),
            NewMessage(handler="h"),
        ]
    )
    assert outcomes(answers) == ["created", "duplicate", "duplicate", "created"]
    assert answers[1].id == there.id
    assert answers[2].id == answers[0].id
    assert Message.objects.get(pk=answers[0].id).handler == "z"


def test_it_is_a_function_of_the_database_too():
    channel_set(channel="b")
    found = sql(
        "SELECT outcome FROM pgqueue_enqueue_many("
        "ARRAY['x', 'y'], ARRAY['1', NULL]::jsonb[], p_channels => ARRAY['b', NULL])"
    )
    assert found == [("created",), ("created",)]
    stored = Message.objects.order_by("handler").values_list("handler", "payload", "channel__name")
    assert list(stored) == [("x", 1, "b"), ("y", None, "default")]
