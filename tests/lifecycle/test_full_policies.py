"""A full channel whose policy makes room: drop_oldest, replace."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError

from django_pgqueue import (
    NewMessage,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    enqueue_many,
    redrive,
    retry,
)
from django_pgqueue.exceptions import ChannelFull
from django_pgqueue.models import ArchivedMessage, Channel, Message
from tests.support.messages import enqueue_numbered, places
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
DROPPERS = pytest.mark.parametrize("policy", ["drop_oldest", "replace"])


def small(policy: str, max_size: int = 3, channel: str = "default") -> None:
    channel_set(channel=channel, max_size=max_size, full_policy=policy)


def waiting() -> list[object]:
    return list(Message.objects.exclude(status=Message.Status.LEASED).order_by("id").values_list("payload", flat=True))


def dropped() -> list[object]:
    found = ArchivedMessage.objects.filter(outcome="dropped").order_by("id")
    return list(found.values_list("payload", flat=True))


def counted() -> int:
    """Live messages of the channel, as the queue counts them."""
    [(count,)] = sql("""
        SELECT s.live
            - (SELECT coalesce(sum(d.messages), 0) FROM pgqueue_departure AS d WHERE d.channel_id = s.channel_id)
        FROM pgqueue_channel_size AS s JOIN pgqueue_channel AS c ON c.id = s.channel_id AND c.name = 'default'""")
    assert count == Message.objects.filter(channel__name="default").count()
    return int(count)


def test_the_oldest_leaves_for_a_new_message_and_the_caller_learns_its_id():
    small("drop_oldest")
    first, *_ = enqueue_numbered(3, first=1)
    answer = enqueue("h", 4)
    assert (answer.outcome, answer.dropped_ids) == ("created", (first,))
    assert (waiting(), dropped()) == ([2, 3, 4], [1])
    assert places(first) == ["archive"]
    assert [delivery.payload for delivery in dequeue(limit=9)] == [2, 3, 4]
    assert counted() == 3


def test_all_that_wait_leave_for_a_new_message_that_replaces_them():
    small("replace")
    ids = enqueue_numbered(3, first=1)
    answer = enqueue("h", 4)
    assert (answer.outcome, sorted(answer.dropped_ids)) == ("created", ids)
    assert (waiting(), dropped()) == ([4], [1, 2, 3])
    assert counted() == 1
    assert enqueue("h", 5).dropped_ids == ()


def test_the_oldest_is_that_which_is_due_the_longest_whatever_its_priority():
    small("drop_oldest", 4)
    enqueue("h", "low", priority=-5)
    enqueue("h", "late", delay=HOUR)
    enqueue("h", "high", priority=9)
    enqueue("h", "earlier", dequeue_at=Message.objects.earliest("id").created_at - HOUR)
    left = []
    for number in range(4):
        left.append(ArchivedMessage.objects.get(pk=enqueue("h", number, priority=number).dropped_ids[0]).payload)
    assert left == ["earlier", "low", "high", 0]
    assert waiting() == ["late", 1, 2, 3]


def test_a_scheduled_message_leaves_when_nothing_is_ready():
    small("drop_oldest")
    for hours in (3, 1, 2):
        enqueue("h", hours, delay=hours * HOUR)
    enqueue("h", "new", delay=9 * HOUR)
    assert dropped() == [1]
    enqueue("h", "ready")
    assert dropped() == [1, 2]
    enqueue("h", "newer", delay=8 * HOUR)
    assert dropped() == [1, 2, "ready"]


@DROPPERS
def test_a_leased_message_is_never_dropped(policy: str):
    small(policy, 2)
    enqueue_numbered(2, first=1)
    held = dequeue(limit=2)
    with refused(ChannelFull, "not dropped"):
        enqueue("h", 3)
    answer = enqueue("h", 3, on_refused="return")
    assert (answer.outcome, answer.dropped_ids) == ("full", ())
    assert complete(held) == {delivery.id for delivery in held}
    assert dropped() == []


@DROPPERS
def test_a_retry_into_a_full_channel_stays(policy: str):
    small(policy, 2)
    enqueue_numbered(1, first=1)
    [held] = dequeue()
    enqueue_numbered(1, first=2)
    retry(held, errors=[{}], delays=[timedelta(0)])
    assert (dropped(), counted()) == ([], 2)


@DROPPERS
def test_a_duplicate_makes_nothing_leave(policy: str):
    small(policy, 2)
    sent = enqueue("h", 1, dedupe_key="k")
    enqueue("h", 2)
    again = enqueue("h", 3, dedupe_key="k")
    assert (again.id, again.outcome, again.dropped_ids) == (sent.id, "duplicate", ())
    assert waiting() == [1, 2]


@pytest.mark.parametrize(("policy", "left"), [("drop_oldest", [5, 6, 7]), ("replace", [7])])
def test_more_messages_than_the_channel_holds_come_one_after_the_other(policy: str, left: list[int]):
    small(policy)
    answers = enqueue_many(NewMessage(handler="h", payload=number) for number in range(1, 8))
    assert all(answer.created for answer in answers)
    assert (waiting(), dropped()) == (left, [number for number in range(1, 8) if number not in left])
    answered = [number for answer in answers for number in answer.dropped_ids]
    assert sorted(answered) == list(ArchivedMessage.objects.order_by("id").values_list("id", flat=True))
    assert counted() == len(left)


@pytest.mark.parametrize("count", range(1, 9))
@DROPPERS
def test_a_plain_insert_of_many_leaves_what_enqueues_one_after_the_other_leave(policy: str, count: int):
    found = []
    for name in ("single", "together"):
        channel_set(channel=name, queue=name, max_size=3, full_policy=policy)  # type: ignore[arg-type]
        channel = Channel.objects.get(name=name)
        enqueue_many(NewMessage(handler="h", payload=number, channel=name, queue=name) for number in range(2))
        dequeue()
        made = [Message(channel=channel, handler="h", payload=number) for number in range(2, 2 + count)]
        if name == "together":
            Message.objects.bulk_create(made)
        else:
            for message in made:
                enqueue("h", message.payload, channel=name, queue=name)
        live = Message.objects.filter(channel=channel).order_by("id")
        found.append(list(live.values_list("payload", "status")))
    assert found[0] == found[1]


@DROPPERS
def test_a_plain_insert_raises_where_all_is_leased(policy: str):
    small(policy, 1)
    enqueue_numbered(1, first=1)
    dequeue()
    with refused(DatabaseError, "holds 1 of 1 messages") as raised:
        Message.objects.create(channel=Channel.objects.get(), handler="h")
    assert raised.value.__cause__.sqlstate == ChannelFull.sqlstate
    assert counted() == 1


@DROPPERS
def test_a_redrive_drops_nothing(policy: str):
    small(policy, 1)
    [letter] = enqueue_numbered(1, first=1)
    dead_letter(dequeue(), reason="refused")
    enqueue_numbered(1, first=2)
    with refused(ChannelFull, "redrive"):
        redrive(letter)
    assert (waiting(), dropped()) == ([2], [])
