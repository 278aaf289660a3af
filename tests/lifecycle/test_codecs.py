"""PAYLOAD_CODEC: what handlers get and return is stored as the codec says, and read as it was."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import (
    NewMessage,
    cancel,
    channel_set,
    codecs,
    complete,
    dead_letter,
    defer,
    dequeue,
    dequeue_matching,
    edit,
    enqueue,
    enqueue_many,
    limit_set,
    peek,
    pop,
    redrive,
    retry,
    schedule_run,
)
from django_pgqueue.codecs import Place
from django_pgqueue.exceptions import CodecUnavailable, InvalidMessage
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message, Schedule
from tests.support.codecs import SECRET, Toy
from tests.support.markdown import DOCS, section
from tests.support.messages import live, places
from tests.support.moments import pass_time
from tests.support.refusals import refused
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db


@pytest.fixture
def toy(settings: Any) -> Toy:
    codec = Toy()
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": codec}
    return codec


def grep(text: str) -> list[str]:
    tables = ("pgqueue_message", "pgqueue_archived_message", "pgqueue_dead_letter", "pgqueue_schedule")
    seen = "position(%s IN to_jsonb(t)::text) + position(%s IN to_jsonb(t)::text)"
    hexed = text.encode().hex()
    # A body that is stored as it is shows as the hex of its bytes; the toy's hex is the hex of that.
    return [
        table for table in tables if value(f"SELECT count(*) FROM {table} AS t WHERE {seen} > 0", text, rf"\x{hexed}")
    ]


def test_a_payload_is_stored_encoded_and_delivered_as_it_was(toy: Toy) -> None:
    payload = {"to": SECRET, "n": [1, None, "ü"]}
    enqueue("h", payload, body=SECRET.encode(), dedupe_key="k", headers={"trace": 7})
    [row] = Message.objects.all()
    assert row.payload.keys() == {"$codec", "v", "data"}
    assert (row.payload["$codec"], row.payload["v"]) == ("toy", 3)
    assert bytes(row.body).startswith(codecs.BODY_MARK)
    assert row.headers == {"trace": 7}
    assert grep(SECRET) == []
    [seen] = peek()
    assert (seen.payload, seen.body) == (payload, SECRET.encode())
    [delivery] = dequeue()
    assert (delivery.payload, delivery.body) == (payload, SECRET.encode())


def test_many_and_pop(toy: Toy) -> None:
    channel_set(channel="b")
    enqueue_many(
        [NewMessage(handler="h", payload=n, channel=channel) for n, channel in enumerate(["default", "b"] * 2)]
    )
    assert {row.payload["data"].split(":")[0] for row in Message.objects.all()} == {"default", "b"}
    assert sorted(delivery.payload for delivery in pop(limit=9)) == [0, 1, 2, 3]


def test_a_key_of_the_context_is_read_where_it_is_needed(toy: Toy) -> None:
    Channel.objects.filter(name="default").update(context={"key": "of the context"})
    enqueue("h", 1)
    assert Message.objects.get().payload["data"] == "of the context:31"
    assert peek()[0].payload == 1
    assert dequeue()[0].payload == 1


def test_results_states_errors_and_details_are_encoded_too(toy: Toy) -> None:
    said = {"said": SECRET}
    for _ in range(3):
        enqueue("h", said)
    done, dead, failed = dequeue(limit=3)
    complete(done, results=[said])
    dead_letter(dead, reason="refused", details=said)
    error = {"type": "ValueError", "message": SECRET, "traceback": f"raise {SECRET}"}
    retry(failed, errors=[error], delays=[timedelta(0)], states=[said])
    assert grep(SECRET) == []
    assert codecs.opened(ArchivedMessage.objects.get().result, Place("default", "default", dict)) == said
    [kept] = (
        live(failed.id, "errors")
        if isinstance(live(failed.id, "errors"), list)
        else json.loads(live(failed.id, "errors"))
    )
    assert (kept["type"], kept["message"]) == ("ValueError", "encoded")
    pass_time(seconds=1)
    [again] = dequeue()
    assert again.state == said
    defer(again, state=[SECRET])
    assert grep(SECRET) == []
    assert dequeue()[0].state == [SECRET]


def test_a_message_that_was_stored_before_the_codec_is_delivered(settings: Any, toy: Toy) -> None:
    settings.DJANGO_PGQUEUE = {}
    enqueue("h", {"plain": 1})
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": toy}
    assert dequeue()[0].payload == {"plain": 1}


@pytest.mark.parametrize("setting", [None, "other"])
def test_a_message_of_another_codec_becomes_a_dead_letter_and_nothing_is_logged_of_it(
    toy: Toy, settings: Any, setting: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    sent, plain = enqueue("h", SECRET).id, enqueue("h", [2]).id
    sql("UPDATE pgqueue_message SET payload = '[2]' WHERE id = %s", plain)
    other = Toy()
    other.name = "other"
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": setting and other}
    with caplog.at_level(logging.ERROR):
        assert [delivery.id for delivery in dequeue(limit=9)] == [plain]
    letter = DeadLetter.objects.get(pk=sent)
    assert letter.reason == "undecodable"
    assert letter.details["type"] == "PayloadUndecodable"
    assert "PAYLOAD_CODEC is" in letter.details["message"]
    [record] = caplog.records
    assert record.event == "undecodable"
    assert SECRET not in caplog.text
    assert "data" not in caplog.text
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": toy}
    redrive([sent])
    assert dequeue()[0].payload == SECRET


def test_a_message_waits_while_the_keys_cannot_be_had(toy: Toy, caplog: pytest.LogCaptureFixture) -> None:
    sent = enqueue("h", 1, max_attempts=1).id
    other = enqueue("h", 2).id
    toy.is_down = True
    assert dequeue() == []
    assert live(other, "status") == 1, "one call asks for the key of one batch only"
    assert places(sent) == ["live"]
    assert live(sent, "status", "attempts") == (3, 0)
    [record] = caplog.records
    assert record.event == "codec_unavailable"
    assert "ConnectionError" in caplog.text
    assert SECRET not in caplog.text
    toy.is_down = False
    pass_time(seconds=16)
    assert {delivery.payload for delivery in dequeue(limit=2)} == {1, 2}


def test_an_enqueue_without_keys_stores_nothing(toy: Toy) -> None:
    toy.is_down = True
    with refused(CodecUnavailable, "the codec 'toy' failed with ConnectionError"):
        enqueue("h", SECRET)
    with refused(CodecUnavailable):
        enqueue_many([NewMessage(handler="h", payload=1)])
    assert not Message.objects.exists()


def plain_columns(table: str) -> set[str]:
    """The columns in which the secret can be read."""
    found = sql(
        f"SELECT DISTINCT c.key FROM {table} AS t, jsonb_each_text(to_jsonb(t)) AS c WHERE position(%s IN c.value) > 0",
        SECRET,
    )
    return {column for (column,) in found}


def test_the_page_names_all_columns_that_stay_readable(toy: Toy) -> None:
    """An application that puts the same personal data into everything it may write."""
    words = {
        "channel": "channel", "channel_name": "channel", "queue": "queue", "queue_name": "queue", "handler": "handler",
        "headers": "headers", "dedupe_key": "**dedupe keys**", "order_key": "**order keys**", "worker": "worker",
        "reason": "reason of a dead letter", "cancel_reason": "reason of a cancellation", "name": "schedule",
        "context": "context of the channel", "limits": "shared limits",
    }  # fmt: skip
    limit_set(SECRET, max_concurrency=5)
    channel_set(channel=SECRET, queue=SECRET, context={"key": "k", "secret": SECRET})
    for number in range(3):
        enqueue(
            SECRET, SECRET, channel=SECRET, queue=SECRET, body=SECRET.encode(), headers={SECRET: SECRET},
            dedupe_key=f"{SECRET} {number}", order_key=f"{SECRET} {number}", limits=[SECRET],
        )  # fmt: skip
    schedule = {"handler": SECRET, "payload": SECRET, "queue": SECRET, "channel": SECRET, "headers": {SECRET: SECRET}}
    Schedule.objects.create(name=SECRET, cron="0 4 * * *", **schedule)
    done, dead, cancelled = dequeue(queue=SECRET, limit=3, worker=SECRET)
    cancel([cancelled.id], reason=SECRET)
    readable = plain_columns("pgqueue_message")
    defer(done, state=SECRET, delay=timedelta(0))
    dead_letter(dead, reason=SECRET, details=SECRET)
    [again] = dequeue(queue=SECRET, worker=SECRET)
    complete([again, cancelled], results=[SECRET, SECRET])
    for table in ("archived_message", "dead_letter", "schedule", "channel", "limit"):
        readable |= plain_columns(f"pgqueue_{table}")

    page = (DOCS / "how-to" / "encrypt-payloads.md").read_text()
    plain = " ".join(row.split("|")[2] for row in section(page, "What is encrypted").splitlines() if row[:2] == "| ")
    assert {"dedupe_key", "order_key", "cancel_reason", "worker", "reason"} <= readable
    assert {column for column in readable if words.get(column, column) not in plain} == set()


def test_edit_and_redrive_encode_what_they_are_given(toy: Toy) -> None:
    sent = enqueue("h", 1).id
    edit(sent, {"edited": SECRET})
    assert grep(SECRET) == []
    [delivery] = dequeue()
    assert delivery.payload == {"edited": SECRET}
    dead_letter(delivery, reason="no")
    stored = DeadLetter.objects.get().payload
    redrive([sent])
    assert Message.objects.get().payload == stored, "ciphertext stays as it is"
    [delivery] = dequeue()
    dead_letter(delivery, reason="no")
    redrive([delivery.id], payload=[SECRET])
    assert grep(SECRET) == []
    assert dequeue()[0].payload == [SECRET]


def test_a_redrive_to_another_channel_encodes_for_that_channel(toy: Toy) -> None:
    channel_set(channel="b")
    sent = [enqueue("h", n).id for n in range(2)]
    enqueue("h", 7, body=b"x")
    for delivery in dequeue(limit=3):
        dead_letter(delivery, reason="no")
    assert len(redrive(sent, channel="b")) == 2
    assert {row.payload["data"].split(":")[0] for row in Message.objects.all()} == {"b"}
    assert sorted(delivery.payload for delivery in dequeue(limit=9)) == [0, 1]
    [with_body] = DeadLetter.objects.filter(redriven_at=None)
    with refused(InvalidMessage, "encoded body or state, which cannot go to another channel"):
        redrive([with_body.pk], channel="b")
    assert redrive([with_body.pk])


def test_a_schedule_keeps_its_payload_encoded(toy: Toy) -> None:
    channel_set(channel="b")
    row = Schedule.objects.create(name="nightly", handler="h", payload={"s": SECRET}, cron="0 4 * * *")
    assert grep(SECRET) == []
    schedule_run("nightly")
    assert dequeue()[0].payload == {"s": SECRET}
    stored = Schedule.objects.get(name="nightly").payload
    row = Schedule.objects.get(name="nightly")
    row.save()
    assert Schedule.objects.get(name="nightly").payload == stored
    row.channel = "b"
    row.save()
    assert Schedule.objects.get(name="nightly").payload["data"].startswith("b:")
    schedule_run("nightly")
    assert dequeue()[0].payload == {"s": SECRET}


def test_matching_sees_the_stored_form_only(toy: Toy) -> None:
    enqueue("h", {"to": SECRET})
    assert dequeue_matching(payload={"to": SECRET}) == []
    [delivery] = dequeue_matching(handler="h")
    assert delivery.payload == {"to": SECRET}


@pytest.mark.parametrize("given", [{"payload": {"$codec": "toy", "v": 1, "data": "x"}}, {"body": codecs.BODY_MARK}])
def test_the_stored_form_is_refused_without_a_codec(given: dict[str, Any]) -> None:
    with refused(InvalidMessage, "codec"):
        enqueue("h", **given)
    with refused(InvalidMessage, "message 1 of 1"):
        enqueue_many([NewMessage(handler="h", **given)])
    assert not Message.objects.exists()
