"""Of the messages of a channel with the same key there is one at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_pgqueue import (
    Debounce,
    NewMessage,
    Unique,
    cancel,
    channel_erase,
    channel_set,
    complete,
    dequeue,
    enqueue,
    enqueue_many,
    retry,
)
from django_pgqueue.exceptions import ChannelFull, InvalidMessage
from django_pgqueue.models import Message
from tests.support.moments import pass_time
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def ask(unique: Unique | Debounce, payload: Any = None, **more: Any) -> tuple[str, int | None]:
    answer = enqueue("work", payload, unique=unique, **more)
    return answer.outcome, answer.id


def payloads() -> list[Any]:
    return [*Message.objects.order_by("id").values_list("payload", flat=True)]


def taken() -> Any:
    [delivery] = dequeue()
    return delivery


@pytest.mark.parametrize("until", ["settled", "leased", HOUR])
def test_a_message_that_waits_is_kept(until: Any) -> None:
    _, first = ask(Unique("order-7", until=until), 1)
    assert ask(Unique("order-7", until=until), 2) == ("duplicate", first)
    assert ask(Unique("order-8", until=until), 3)[0] == "created"
    assert payloads() == [1, 3]


@pytest.mark.parametrize("until", ["settled", "leased", HOUR])
def test_or_gets_the_new_payload(until: Any) -> None:
    unique = Unique("order-7", until=until, on_conflict="replace")
    _, first = ask(unique, 1, headers={"a": 1}, body=b"1")
    assert ask(unique, 2, headers={"a": 2}, body=b"2") == ("replaced", first)
    [message] = Message.objects.all()
    assert (message.payload, message.headers, bytes(message.body)) == (2, {"a": 2}, b"2")


def test_until_settled_a_started_one_is_kept_also_through_its_retries() -> None:
    unique = Unique("k", on_conflict="replace")
    _, first = ask(unique, 1)
    delivery = taken()
    assert ask(unique, 2) == ("duplicate", first)
    retry(delivery, errors=[{}], delays=[timedelta(0)])
    assert ask(unique, 2) == ("duplicate", first), "it has begun: what it has read may be the old payload"
    complete(taken())
    assert ask(unique, 2)[0] == "created"
    assert payloads() == [2]


def test_until_leased_the_next_one_waits_beside_the_started_one() -> None:
    unique = Unique("k", until="leased")
    _, first = ask(unique, 1)
    delivery = taken()
    outcome, second = ask(unique, 2)
    assert (outcome, ask(unique, 3)) == ("created", ("duplicate", second))
    retry(delivery, errors=[{}], delays=[timedelta(0)])
    assert {each.id for each in dequeue(limit=5)} == {first, second}, "a retry meets no unique violation"


def test_a_window_goes_on_after_the_end_of_its_message() -> None:
    unique = Unique("k", until=HOUR)
    _, first = ask(unique, 1)
    complete(taken())
    assert ask(unique, 2) == ("duplicate", first)
    sql("UPDATE pgqueue_unique_key SET expires_at = clock_timestamp()")
    outcome, second = ask(unique, 3)
    assert (outcome, ask(unique, 4)) == ("created", ("duplicate", second))


def test_a_cancelled_message_frees_its_key() -> None:
    _, first = ask(Unique("k"))
    cancel(first)
    assert ask(Unique("k"))[0] == "created"


def test_a_debounced_message_is_put_off_and_has_the_last_payload() -> None:
    debounce = Debounce("search-7", wait=MINUTE)
    _, first = ask(debounce, 1)
    pass_time(seconds=30)
    assert ask(debounce, 2) == ("replaced", first)
    pass_time(seconds=40)
    assert dequeue() == [], "30 s are left of the second minute"
    pass_time(seconds=25)
    assert taken().payload == 2


def test_but_not_longer_than_at_most() -> None:
    debounce = Debounce("k", wait=MINUTE, at_most=90 * SECOND)
    ask(debounce, 1)
    pass_time(seconds=50)
    sql("UPDATE pgqueue_message SET created_at = created_at - interval '50 s'")
    ask(debounce, 2)
    pass_time(seconds=45)
    assert taken().payload == 2


def test_a_debounced_message_that_is_due_has_no_key_any_more() -> None:
    debounce = Debounce("k", wait=MINUTE)
    ask(debounce, 1)
    pass_time(minutes=2)
    assert ask(debounce, 2)[0] == "created"
    assert taken().payload == 1


def test_many_are_enqueued_all_or_none_and_answered_in_their_order() -> None:
    unique = Unique("k", on_conflict="replace")
    messages = [NewMessage(handler="work", payload=n, unique=unique) for n in range(3)]
    answers = enqueue_many([*messages, NewMessage(handler="other")])
    assert [answer.outcome for answer in answers] == ["created", "replaced", "replaced", "created"]
    assert payloads() == [{}, 2], "in the order of their keys"
    channel_set(channel="full", max_size=1)
    enqueue("work", channel="full")
    with pytest.raises(ChannelFull, match="message 2 of 2"):
        enqueue_many(
            [NewMessage(handler="work", unique=Unique("new")), NewMessage(handler="w", channel="full", unique=unique)]
        )
    assert Message.objects.count() == 3


def test_a_refused_message_has_no_key() -> None:
    channel_set(channel="full", max_size=1)
    enqueue("work", channel="full")
    assert enqueue("work", channel="full", unique=Unique("k"), on_refused="return").outcome == "full"
    assert value("SELECT count(*) FROM pgqueue_unique_key") == 0
    channel_set(channel="full", max_size=2)
    assert ask(Unique("k"), channel="full")[0] == "created"
    assert ask(Unique("k"), channel="full")[0] == "duplicate", "which needs no room"


@pytest.mark.parametrize(
    ("unique", "words"),
    [
        (Unique(""), "1 to 200 characters"),
        (Unique("x" * 201), "1 to 200 characters"),
        (Unique("k", until="done"), "until is 'done'"),  # type: ignore[arg-type]
        (Unique("k", until=timedelta(0)), "until is"),
        (Unique("k", on_conflict="drop"), "on_conflict is 'drop'"),  # type: ignore[arg-type]
        (Debounce("k", wait=timedelta(0)), "wait is"),
        ("k", "unique is not a Unique or Debounce but str"),
    ],
    ids=str,
)
def test_a_wrong_value_is_named(unique: Any, words: str) -> None:
    with pytest.raises(InvalidMessage, match=words):
        enqueue("work", unique=unique)


def test_what_does_not_go_together_is_said() -> None:
    with pytest.raises(InvalidMessage, match="both unique and dedupe_key"):
        enqueue("work", unique=Unique("k"), dedupe_key="k")
    with pytest.raises(InvalidMessage, match="both a debounce and dequeue_at or delay"):
        enqueue("work", unique=Debounce("k", wait=SECOND), delay=SECOND)


@pytest.mark.parametrize("asked", ['{"key": "k", "until": "never"}', '{"key": "k", "until": "due"}', "{}"])
def test_sql_refuses_what_it_does_not_know(asked: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT outcome FROM pgqueue_enqueue_unique(%s::jsonb, 'work')", [asked])
        assert cursor.fetchone() == ("invalid",)


def test_keys_that_nobody_has_are_removed() -> None:
    ask(Unique("waits"))
    ask(Unique("window", until=HOUR))
    _, gone = ask(Unique("gone"))
    _, also_gone = ask(Unique("in the window", until=HOUR))
    cancel([gone, also_gone])
    sql("SELECT pgqueue_prune_line()")
    assert {row[0] for row in sql("SELECT unique_key FROM pgqueue_unique_key")} == {"waits", "window", "in the window"}


@pytest.mark.django_db(transaction=True)
def test_an_erased_channel_leaves_no_key() -> None:
    channel_set(channel="acme")
    ask(Unique("jane@example.com", until=HOUR), channel="acme")
    channel_erase(queue="default", channel="acme")
    assert value("SELECT count(*) FROM pgqueue_unique_key") == 0
