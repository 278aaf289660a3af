from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_pgqueue import NewMessage, channel_release, channel_set, dequeue, enqueue, enqueue_many
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


def test_messages_of_one_call_have_one_time() -> None:
    answers = enqueue_many(NewMessage(handler="h") for _ in range(3))
    assert {answer.created_at for answer in answers} == {Message.objects.get(pk=answers[0].id).created_at}


def test_messages_that_are_enqueued_one_by_one_have_times_of_their_own() -> None:
    answers = enqueue_many(NewMessage(handler="h", dedupe_key=f"k{number}") for number in range(3))
    stored = Message.objects.in_bulk([answer.id for answer in answers])
    assert [answer.created_at for answer in answers] == [stored[answer.id].created_at for answer in answers]
    assert len({answer.created_at for answer in answers}) == 3


def test_a_channel_that_is_created_and_one_that_exists_share_a_call(settings) -> None:
    settings.DJANGO_PGQUEUE = {"AUTO_CREATE_CHANNELS": True}
    channel_set(channel="old")
    answers = enqueue_many(NewMessage(handler="h", channel=name) for name in ("old", "new", "old"))
    assert [Message.objects.get(pk=answer.id).channel.name for answer in answers] == ["old", "new", "old"]


@cases(
    ("arrays", "problem"),
    [
        ("ARRAY['h', '']", "the handler has no name"),
        ("ARRAY['h', NULL]", "the handler has no name"),
        ("ARRAY['h', repeat('x', 201)]", "longer than 200 characters"),
        ("ARRAY['h', 'h'], p_priorities => ARRAY[1, 40000]", "priority"),
        ("ARRAY['h', 'h'], p_max_attempts => ARRAY[1, 0]", "max_attempts"),
        ("ARRAY['h', 'h'], p_max_attempts => ARRAY[1, 0], p_delays => ARRAY['1 s', '1 s']::interval[]", "max_attempts"),
        ("ARRAY['h', 'h'], p_delays => ARRAY['1 s', '-400000 days']::interval[]", "delay"),
        ("ARRAY['h', 'h'], p_costs => ARRAY[1, 0]", "cost"),
    ],
)
def test_the_function_finds_the_message_that_breaks_a_rule(arrays: str, problem: str) -> None:
    handlers, *others = arrays.split(", p_", 1)
    given = f"{handlers}, ARRAY['1', '2']::jsonb[]" + (f", p_{others[0]}" if others else "")
    rows = sql(f"SELECT outcome, refusal ->> 'message' FROM pgqueue_enqueue_many({given})")
    assert [outcome for outcome, _ in rows] == ["withheld", "invalid"]
    assert problem in rows[1][1]
    assert Message.objects.count() == 0


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


def test_messages_of_one_call_are_first_in_first_out():
    enqueue_many(NewMessage(handler="h", payload=n) for n in range(50))
    assert [delivery.payload for delivery in dequeue(limit=50)] == list(range(50))


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


def test_duplicates_are_found_on_a_channel_that_holds_more_than_it_may() -> None:
    there = [enqueue("h", dedupe_key=key).id for key in "ab"]
    channel_set(channel="default", max_size=1)
    answers = enqueue_many(NewMessage(handler="h", dedupe_key=key) for key in "ab")
    assert [(answer.id, answer.outcome) for answer in answers] == [(number, "duplicate") for number in there]


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
