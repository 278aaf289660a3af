from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_pgqueue import channel_set, complete, dead_letter, defer, dequeue, enqueue, redrive, retry
from django_pgqueue.exceptions import ChannelNotFound, InvalidMessage
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.outcomes import KEEP
from tests.support.messages import live, places
from tests.support.moments import pass_time
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def make_dead(count: int = 1, **fields) -> list[int]:
    ids = [enqueue("greet", {"n": n}, **fields).id for n in range(count)]
    dead_letter(dequeue(limit=count), reason="refused")
    return ids


def test_a_new_life_names_the_old_one_and_the_old_one_the_new():
    [old] = make_dead()
    [(was, new)] = redrive([old]).items()
    assert was == old != new
    assert (places(old), places(new)) == (["dead letters"], ["live"])
    assert live(new, "redriven_from") == old
    letter = DeadLetter.objects.get()
    assert letter.redriven_to == new
    assert letter.redriven_at >= letter.dead_at
    complete(dequeue())
    assert ArchivedMessage.objects.get().redriven_from == old


def test_the_message_is_the_same_with_all_its_attempts():
    policy = {"max_attempts": 2, "backoff": timedelta(seconds=7)}
    sent = enqueue("greet", {"n": 1}, body=b"\xff", headers={"x": 1}, priority=4, dedupe_key="k", **policy)
    [delivery] = dequeue()
    defer(delivery, state={"page": 3})
    for _ in range(2):
        retry(dequeue(), errors=[{}], delays=[timedelta(0)])
    assert places(sent.id) == ["dead letters"]
    redrive([sent.id])
    [delivery] = dequeue()
    assert (delivery.handler, delivery.payload, delivery.body, delivery.headers) == (
        "greet",
        {"n": 1},
        b"\xff",
        {"x": 1},
    )
    assert (delivery.priority, delivery.attempt, delivery.max_attempts, delivery.state) == (4, 1, 2, {"page": 3})
    assert live(delivery.id, "backoff", "dedupe_key", "errors") == (timedelta(seconds=7), None, None)


def test_a_dead_letter_is_redriven_once_only():
    [old] = make_dead()
    [new] = redrive([old]).values()
    assert redrive([old]) == {}
    dead_letter(dequeue(), reason="refused again")
    assert redrive([old]) == {}
    [newer] = redrive([new]).values()
    assert live(newer, "redriven_from") == new


def test_another_channel_of_the_same_queue_can_be_named():
    channel_set(channel="second chance")
    [old] = make_dead()
    redrive([old], channel="second chance")
    assert [delivery.channel for delivery in dequeue()] == ["second chance"]


@pytest.mark.parametrize("payload", [{"n": "repaired"}, None, [], 0])
def test_another_payload_can_be_given(payload: object):
    [old] = make_dead()
    redrive([old], payload=payload)
    [delivery] = dequeue()
    assert delivery.payload == payload
    assert DeadLetter.objects.get().payload == {"n": 0}


def test_each_letter_can_be_given_a_payload_of_its_own():
    first, second, third = make_dead(3)
    lives = redrive([third, first, second, third], payloads=[{"n": "third"}, None, KEEP, {"n": "too late"}])
    payloads = {delivery.id: delivery.payload for delivery in dequeue(limit=3)}
    assert [payloads[lives[old]] for old in (first, second, third)] == [None, {"n": 1}, {"n": "third"}]


def test_payloads_that_do_not_pair_up_are_refused():
    ids = make_dead(2)
    with refused(InvalidMessage, match=r"p_payloads has 1 element\(s\), p_ids has 2"):
        redrive(ids, payloads=[{}])
    assert not Message.objects.exists()


def test_they_arrive_in_one_statement_channel_by_channel_and_the_oldest_first():
    """One statement is one arrival and one event a channel, however many letters."""
    channel_set(channel="another")
    first, second = make_dead(2), make_dead(2, channel="another")
    sql("TRUNCATE pgqueue_arrival")
    lives = redrive([*reversed(first), *reversed(second)])
    arrivals = sql("SELECT c.name FROM pgqueue_arrival a JOIN pgqueue_channel c ON c.id = a.channel_id")
    assert sorted(arrivals) == [("another",), ("default",)]
    assert list(lives) == [*second, *first]
    assert list(lives.values()) == sorted(lives.values())
    served = [delivery.id for delivery in dequeue(limit=4) if delivery.channel == "default"]
    assert served == [lives[old] for old in first]


def test_an_unknown_channel_or_a_bad_payload_is_refused():
    [old] = make_dead()
    with refused(ChannelNotFound):
        redrive([old], channel="x" * 300)
    with refused(InvalidMessage):
        redrive([old], payload={"a": "\0"})
    assert list(redrive([old])) == [old]


def test_each_dead_letter_may_have_a_time_of_its_own():
    letters = make_dead(3)
    at = timezone.now() + timedelta(hours=1)
    lives = redrive(letters, times=[None, at, timezone.now() - timedelta(hours=1)])
    assert live(lives[letters[1]], "status", "dequeue_at") == (Message.Status.SCHEDULED, at)
    due = dequeue(limit=5)
    assert {delivery.id for delivery in due} == {lives[letters[0]], lives[letters[2]]}
    complete(due)
    pass_time(hours=2)
    assert [delivery.id for delivery in dequeue(limit=5)] == [lives[letters[1]]]


@pytest.mark.parametrize(
    ("more", "spoil", "problem"),
    [
        ("p_times => ARRAY['200000-01-01'::timestamptz]", "", "dequeue_at is outside of the years 2 to 9998"),
        ("p_payload => to_jsonb(repeat('x', 70000000))", "", "take more than 64 MB"),
        ("p_payloads => ARRAY[NULL::jsonb]", "max_attempts = 0", "max_attempts is less than 1"),
        ("p_payloads => ARRAY[NULL::jsonb]", "headers = '[1]'", "the headers are not a JSON object"),
    ],
    ids=["time", "payload", "letter", "headers"],
)
def test_an_invalid_redrive_is_an_answer_and_writes_nothing(more: str, spoil: str, problem: str):
    """Found before the INSERT, whose trigger would raise: the transaction of the caller goes on."""
    ids = make_dead(2)
    if spoil:
        sql(f"UPDATE pgqueue_dead_letter SET {spoil} WHERE id = %s", ids[0])
    [(outcome, message)] = sql(f"SELECT outcome, refusal ->> 'message' FROM pgqueue_redrive(ARRAY[%s], {more})", ids[0])
    assert outcome == "invalid"
    assert message.startswith("invalid redrive: ")
    assert message.endswith(problem)
    assert DeadLetter.objects.filter(redriven_at=None).count() == 2
    assert not Message.objects.exists()
    assert redrive(ids[1:])
