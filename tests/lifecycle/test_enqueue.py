from __future__ import annotations

import math
import secrets
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone

from django_pgqueue import (
    NewMessage,
    aenqueue,
    channel_release,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    enqueue_many,
    retry,
)
from django_pgqueue.exceptions import ChannelFull, ChannelNotFound, ChannelReleased, InvalidMessage
from django_pgqueue.models import Channel, Message
from tests.lifecycle.conftest import live, pass_time, refused, rolled_back, sql, value

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


@pytest.mark.parametrize(
    "payload",
    [None, True, 0, -1.5, "", "🦆 \x01 \u2028", [], {}, {"": [None, {"a": [1.5]}]}, 10**30, "\\u0000", {"\\ud800": 1}],
    ids=repr,
)
def test_every_json_value_survives(payload: object):
    enqueue("h", payload)
    [delivery] = dequeue()
    assert delivery.payload == payload
    assert type(delivery.payload) is type(payload)


def test_dates_decimals_and_uuids_become_text():
    unique = uuid4()
    enqueue("h", {"at": datetime(2013, 1, 1, tzinfo=UTC), "price": Decimal("1.10"), "id": unique})
    [delivery] = dequeue()
    assert delivery.payload == {"at": "2013-01-01T00:00:00Z", "price": "1.10", "id": str(unique)}


def test_a_body_is_bytes_of_any_value_and_length():
    bodies = [bytes(range(256))[:length] for length in range(257)] + [bytes([byte]) for byte in range(256)]
    for body in (bodies[0], bodies[-1]):
        enqueue("h", body=body)
    enqueue_many(NewMessage(handler="h", body=body) for body in bodies)
    assert [delivery.body for delivery in dequeue(limit=1000)] == [b"", b"\xff", *bodies]


def test_a_payload_and_a_body_of_a_megabyte_pass():
    text, raw = secrets.token_hex(500_000), secrets.token_bytes(1_000_000)
    enqueue("h", {"text": text}, body=raw)
    [delivery] = dequeue()
    assert delivery.payload == {"text": text}
    assert delivery.body == raw


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def test_deep_json_passes():
    enqueue("h", nested(500))
    [delivery] = dequeue()
    assert delivery.payload == nested(500)


circular: list[object] = []
circular.append(circular)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({1, 2}, "not JSON"),
        (object(), "not JSON"),
        (b"bytes", "not JSON"),
        ({("a", "tuple"): 1}, "not JSON"),
        (math.nan, "not JSON"),
        ([math.inf], "not JSON"),
        (circular, "not JSON"),
        (nested(100_000), "not JSON"),
        ("a\0b", "u0000"),
        ({"a\0b": 1}, "u0000"),
        ("\\\0", "u0000"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
    ],
    ids=[
        "set",
        "object",
        "bytes",
        "tuple",
        "nan",
        "infinity",
        "circular",
        "too deep",
        "nul",
        "nul key",
        "nul2",
        "half",
        "half key",
    ],
)
def test_a_payload_that_is_not_json_is_refused_and_says_why(payload: object, problem: str):
    for given in ({"payload": payload}, {"headers": {"x": payload}}):
        with refused(InvalidMessage, problem) as raised:
            enqueue("h", **given)
        assert raised.value.hint
    assert not Message.objects.exists()


def test_the_database_refuses_text_that_is_not_json_too():
    for text in ("{", "NaN", r'"\u0000"', r'"\ud800"'):
        with refused(DatabaseError):
            sql("SELECT pgqueue_enqueue('h', %s::jsonb)", text)
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    "name", ["it's", 'a"b', "'; DROP TABLE pgqueue_message; --", "🦆", "%s", "x" * 200, " ", "Ⅷ\n\t", "\\"]
)
def test_hostile_names_of_channels_are_just_names(name: str):
    channel_set(name)
    enqueue("h", channel=name)
    [delivery] = dequeue()
    assert delivery.channel == name
    complete(delivery)
    assert value("SELECT channel FROM pgqueue_archived_message WHERE id = %s", delivery.id) == name


@pytest.mark.parametrize("name", ["a\0b", "\ud800"], ids=["nul", "half a surrogate pair"])
@pytest.mark.parametrize("argument", ["handler", "channel", "queue", "dedupe_key"])
def test_names_that_are_not_text_are_refused(argument: str, name: str):
    with refused(InvalidMessage):
        enqueue(**{"handler": "h", argument: name})


@pytest.mark.parametrize("name", ["nowhere", "x" * 300, "", "Default", "default "])
def test_an_unknown_channel_is_refused_and_the_error_says_what_to_do(name: str):
    with refused(ChannelNotFound, "does not exist") as raised:
        enqueue("h", channel=name)
    assert "channel_set" in raised.value.hint


def test_a_channel_of_another_queue_is_another_channel():
    with refused(ChannelNotFound):
        enqueue("h", queue="emails")
    channel_set("default", "emails")
    enqueue("h", queue="emails")
    assert dequeue() == []
    assert len(dequeue("emails")) == 1


def test_missing_channels_are_created_where_the_project_wants_that(settings):
    settings.DJANGO_PGQUEUE = {"AUTO_CREATE_CHANNELS": True}
    enqueue("h", channel="new", queue="emails")
    enqueue("h", channel="new", queue="emails")
    assert Channel.objects.get(queue="emails").name == "new"
    assert len(dequeue("emails", 10)) == 2
    with refused(InvalidMessage, "1 to 200"):
        enqueue("h", channel="x" * 201)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"handler": ""}, "no name"),
        ({"handler": "x" * 201}, "200"),
        ({"priority": 32768}, "priority"),
        ({"priority": -32768}, "priority"),
        ({"priority": 2**40}, None),
        ({"priority": "high"}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": -1}, "max_attempts"),
        ({"max_attempts": 2**40}, None),
        ({"backoff": timedelta(seconds=-1)}, "backoff"),
        ({"backoff": 5}, "timedelta"),
        ({"delay": 5}, "timedelta"),
        ({"delay": timedelta.max}, None),
        ({"delay": timedelta(hours=1), "dequeue_at": datetime(2030, 1, 1, tzinfo=UTC)}, "both"),
        ({"dequeue_at": datetime(2030, 1, 1)}, "naive"),  # noqa: DTZ001
        ({"dedupe_key": "x" * 201}, "dedupe key"),
        ({"body": "text"}, "bytes"),
        ({"headers": ["a list"]}, "headers"),
        ({"headers": "text"}, "headers"),
    ],
    ids=str,
)
def test_what_no_message_may_be_is_refused(given: dict[str, object], problem: str | None):
    with refused(InvalidMessage, problem):
        enqueue(**{"handler": "h", **given})
    assert not Message.objects.exists()


def test_an_infinite_time_is_refused():
    with refused(DatabaseError, "infinite"):
        sql("SELECT pgqueue_enqueue('h', p_dequeue_at => 'infinity')")
    with refused(DatabaseError, "infinite"):
        sql(
            "INSERT INTO pgqueue_message (channel_id, handler, dequeue_at)"
            " SELECT id, 'h', 'infinity' FROM pgqueue_channel"
        )


# Any INSERT enqueues.


def test_create_enqueues():
    message = Message.objects.create(channel=Channel.objects.get(), handler="h", payload={"n": 1})
    [delivery] = dequeue()
    assert (delivery.id, delivery.payload, delivery.max_attempts) == (message.pk, {"n": 1}, 5)


def test_bulk_create_enqueues():
    channel = Channel.objects.get()
    Message.objects.bulk_create(Message(channel=channel, handler="h", payload=n) for n in range(30))
    assert [delivery.payload for delivery in dequeue(limit=100)] == list(range(30))


def test_a_plain_insert_enqueues():
    sql("INSERT INTO pgqueue_message (channel_id, handler) SELECT id, 'h' FROM pgqueue_channel")
    [delivery] = dequeue()
    assert (delivery.handler, delivery.payload, delivery.priority, delivery.max_attempts) == ("h", {}, 0, 5)


def test_copy_enqueues():
    channel = Channel.objects.get().pk
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY pgqueue_message (channel_id, handler, payload) FROM STDIN") as copy,
    ):
        for n in range(30):
            copy.write_row((channel, "h", str(n)))
    assert [delivery.payload for delivery in dequeue(limit=100)] == list(range(30))


def test_an_insert_into_many_channels_reaches_them_all():
    names = [f"channel {n}" for n in range(5)]
    for name in names:
        channel_set(name)
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
    assert [delivery.handler for delivery in dequeue(limit=10)] == ["now"]
    pass_time(hours=1)
    assert [delivery.handler for delivery in dequeue(limit=10)] == ["later"]


def later_and_now(later: datetime) -> list[tuple[str, datetime]]:
    return [("later", later), ("now", timezone.now())]


def test_an_insert_for_a_channel_that_does_not_exist_is_refused():
    with refused(DatabaseError, "does not exist") as raised:
        sql("INSERT INTO pgqueue_message (channel_id, handler) VALUES (-1, 'h')")
    assert raised.value.__cause__.sqlstate == ChannelNotFound.sqlstate


def test_a_released_channel_refuses_every_insert():
    channel_release("default")
    with refused(ChannelReleased, "released") as raised:
        enqueue("h")
    assert "channel_set" in raised.value.hint
    with refused(DatabaseError, "released"):
        Message.objects.create(channel=Channel.objects.get(), handler="h")
    assert not Message.objects.exists()


# A message is there if and only if the transaction commits.


def test_a_rollback_leaves_nothing():
    with rolled_back():
        enqueue("h")
    assert not Message.objects.exists()
    assert dequeue() == []


def test_a_rolled_back_savepoint_leaves_only_what_was_outside():
    with transaction.atomic():
        enqueue("before")
        with rolled_back():
            enqueue("inside")
        enqueue("after")
    assert [delivery.handler for delivery in dequeue(limit=10)] == ["before", "after"]


@pytest.mark.django_db(transaction=True)
def test_nobody_sees_a_message_before_the_commit(connect):
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


def test_dequeue_at_names_the_moment():
    moment = timezone.now() + timedelta(days=30)
    assert live(enqueue("h", dequeue_at=moment).id, "dequeue_at", "status") == (moment, SCHEDULED)


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


# Dedupe keys.


def test_a_live_duplicate_gives_the_id_that_is_there_and_says_so():
    first = enqueue("h", {"n": 1}, dedupe_key="invoice 7")
    again = enqueue("h", {"n": 2}, dedupe_key="invoice 7")
    assert (again.id, again.outcome, again.created) == (first.id, "duplicate", False)
    assert [delivery.payload for delivery in dequeue(limit=10)] == [{"n": 1}]


def test_a_key_is_taken_while_its_message_is_scheduled_leased_or_retried():
    sent = enqueue("h", dedupe_key="k", delay=timedelta(hours=1))
    assert enqueue("h", dedupe_key="k").id == sent.id
    pass_time(hours=1)
    [delivery] = dequeue()
    assert enqueue("h", dedupe_key="k").id == sent.id
    retry(delivery, errors=[{}])
    assert enqueue("h", dedupe_key="k").id == sent.id


@pytest.mark.parametrize("settle", [complete, lambda delivery: dead_letter(delivery, reason="refused")])
def test_a_key_is_free_again_when_its_message_is_settled(settle):
    first = enqueue("h", dedupe_key="k")
    settle(*dequeue())
    again = enqueue("h", dedupe_key="k")
    assert again.created
    assert again.id != first.id


def test_a_key_belongs_to_its_channel_and_none_is_no_key():
    channel_set("other")
    sent = [enqueue("h", dedupe_key="k"), enqueue("h", channel="other", dedupe_key="k"), enqueue("h"), enqueue("h")]
    assert all(answer.created for answer in sent)


def test_a_plain_insert_of_a_duplicate_is_an_error():
    enqueue("h", dedupe_key="k")
    with refused(IntegrityError, "pgqueue_message_dedupe"):
        Message.objects.create(channel=Channel.objects.get(), handler="h", dedupe_key="k")


# Size limits.


def test_a_full_channel_refuses_with_an_error():
    channel_set("default", max_size=2)
    enqueue("h")
    enqueue("h")
    with refused(ChannelFull, "2 of 2") as raised:
        enqueue("h")
    assert "max_size" in raised.value.hint
    assert Message.objects.count() == 2


def test_a_full_channel_that_drops_says_so():
    channel_set("default", max_size=1, full_policy="drop")
    assert enqueue("h").created
    answer = enqueue("h")
    assert (answer.id, answer.outcome, answer.created) == (None, "dropped", False)
    assert Message.objects.count() == 1


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_a_plain_insert_into_a_full_channel_raises_whatever_the_policy(policy: str):
    channel_set("default", max_size=1, full_policy=policy)
    channel = Channel.objects.get()
    Message.objects.create(channel=channel, handler="h")
    with refused(DatabaseError, "full") as raised:
        Message.objects.bulk_create([Message(channel=channel, handler="h")])
    assert raised.value.__cause__.sqlstate == ChannelFull.sqlstate
    assert Message.objects.count() == 1


def test_scheduled_and_leased_messages_take_room_and_settled_ones_give_it_back():
    channel_set("default", max_size=2)
    enqueue("h", delay=timedelta(hours=1))
    enqueue("h")
    [delivery] = dequeue()
    with refused(ChannelFull):
        enqueue("h")
    retry(delivery, errors=[{}], delays=[timedelta(0)])
    with refused(ChannelFull):
        enqueue("h")
    [delivery] = dequeue()
    complete(delivery)
    assert enqueue("h").created
    with refused(ChannelFull):
        enqueue("h")


def test_what_a_rollback_took_back_takes_no_room():
    channel_set("default", max_size=1)
    with rolled_back():
        enqueue("h")
    assert enqueue("h").created


def test_a_size_limit_can_be_set_raised_lowered_and_lifted_while_messages_are_there():
    for _ in range(3):
        enqueue("h")
    channel_set("default", max_size=3)
    with refused(ChannelFull):
        enqueue("h")
    channel_set("default", max_size=4)
    enqueue("h")
    channel_set("default", max_size=2)
    complete(dequeue(limit=2))
    with refused(ChannelFull, "2 of 2"):
        enqueue("h")
    channel_set("default", max_size=None)
    for _ in range(5):
        enqueue("h")
    channel_set("default", max_size=8)
    assert enqueue("h").created
    with refused(ChannelFull, "8 of 8"):
        enqueue("h")


def test_a_duplicate_is_found_on_a_full_channel_too():
    for policy in ("error", "drop"):
        channel_set("default", max_size=1, full_policy=policy)
        first = enqueue("h", dedupe_key="k")
        assert enqueue("h", dedupe_key="k").id == first.id
    assert enqueue("h", dedupe_key="another").outcome == "dropped"


def test_functions_that_pin_their_plans_are_not_compiled():
    """A scan that is switched off costs so much on paper that PostgreSQL compiles it: half a second for an enqueue."""
    compiled = sql("""
        SELECT proname FROM pg_proc
        WHERE proname LIKE 'pgqueue%' AND 'enable_seqscan=off' = ANY (proconfig) AND 'jit=off' <> ALL (proconfig)""")
    assert compiled == []


# The other ways to call it.


def test_it_is_a_function_of_the_database_too():
    [(message, outcome)] = sql(
        "SELECT * FROM pgqueue_enqueue('greet', p_priority => 3, p_payload => '[1]', p_delay => '1 hour')"
    )
    assert outcome == "created"
    assert live(message, "handler", "priority", "payload::text", "status", "max_attempts") == (
        "greet",
        3,
        "[1]",
        SCHEDULED,
        5,
    )


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
