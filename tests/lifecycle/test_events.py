"""The notifications that PostgreSQL sends for a queue that has events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from django_pgqueue import (
    NewMessage,
    cancel,
    channel_purge,
    channel_set,
    complete,
    dead_letter,
    defer,
    dequeue,
    enqueue,
    enqueue_many,
    pop,
    redrive,
    retry,
    sweep,
)
from django_pgqueue.events import CHANNEL, Event, decode, listen
from django_pgqueue.models import Queue
from tests.support.cases import cases
from tests.support.messages import lease_message
from tests.support.moments import expire
from tests.support.sessions import Connect
from tests.support.sql import sql

pytestmark = pytest.mark.django_db(transaction=True)


class Ear:
    def __init__(self, connect: Connect) -> None:
        self.connection = connect(autocommit=True)
        self._events = listen(self.connection, timeout=0.2)

    def heard(self) -> list[Event]:
        # The answer comes after all notifications of earlier commits, however busy the machine is.
        self.connection.execute("SELECT 1")
        found = list(self._events)
        self._events = listen(self.connection, timeout=0.2)
        return found

    def names(self) -> list[str]:
        return [event.event for event in self.heard()]


@pytest.fixture
def ear(connect: Connect) -> Ear:
    channel_set(channel="default", queue="quiet")
    Queue.objects.create(name="default", events=True)
    return Ear(connect)


leased = partial(lease_message, handler="greet")


def test_the_life_of_a_message(ear):
    message = enqueue("greet")
    [first] = dequeue()
    defer(first)
    [second] = dequeue()
    complete(second)
    created, deferred, completed = ear.heard()
    assert [event.event for event in (created, deferred, completed)] == ["created", "deferred", "completed"]
    for event in (created, deferred, completed):
        assert (event.queue, event.channel, event.handler, event.ids) == ("default", "default", "greet", (message.id,))
        assert abs(event.at - datetime.now(UTC)) < timedelta(hours=1)
    assert (created.attempts, deferred.attempts, completed.attempts) == (0, 0, 1)
    assert created.dequeue_at is not None
    assert completed.dequeue_at is None


def test_failures(ear):
    retry(leased(), errors=[{}])
    dead_letter(leased(), reason="no_such_order")
    retry(leased(max_attempts=1), errors=[{}])
    expired = leased(max_attempts=1)
    expire(expired)
    sweep()
    events = [(event.event, event.reason) for event in ear.heard() if event.event != "created"]
    assert events == [
        ("retried", None),
        ("dead_lettered", "no_such_order"),
        ("dead_lettered", "failed"),
        ("dead_lettered", "poison"),
    ]


def test_cancellations(ear):
    cancel(enqueue("greet").id)
    asked = leased()
    cancel(asked.id)
    defer(asked)
    ended = leased()
    complete(ended, cancelled=True)
    assert [name for name in ear.names() if name != "created"] == ["cancelled"] * 3


def test_popped_purged_and_redriven(ear):
    enqueue("greet")
    pop()
    enqueue("greet")
    channel_purge(channel="default")
    dead = leased()
    dead_letter(dead, reason="refused")
    redrive([dead.id])
    assert ear.names() == ["created", "popped", "created", "purged", "created", "dead_lettered", "created"]


def test_channels_and_handlers_of_one_statement_come_apart(ear):
    channel_set(channel="acme")
    both = [(handler, channel) for handler in ("greet", "leave") for channel in ("acme", "default")]
    enqueue_many(NewMessage(handler=handler, channel=channel) for handler, channel in both)
    assert {(event.channel, event.handler, len(event.ids)) for event in ear.heard()} == {
        ("acme", "greet", 1),
        ("acme", "leave", 1),
        ("default", "greet", 1),
        ("default", "leave", 1),
    }


def test_many_ids_come_in_several_payloads(ear):
    answers = enqueue_many(NewMessage(handler="greet", payload=n) for n in range(1000))
    events = ear.heard()
    assert len(events) > 1
    assert [number for event in events for number in event.ids] == [answer.id for answer in answers]


def test_the_longest_names_and_ids_fit(ear, connect):
    """A payload of 8,000 bytes would fail the transaction that enqueues."""
    raw = connect(autocommit=True)
    raw.execute(f"LISTEN {CHANNEL}")
    sql("SELECT setval('pgqueue_message_id_seq', 9000000000000000000)")
    name = "\u0001" * 200
    channel_set(channel=name)
    enqueue_many(NewMessage(handler="\u0001" * 200, channel=name) for _ in range(700))
    raw.execute("SELECT 1")
    sizes = [len(notification.payload.encode()) for notification in raw.notifies(timeout=0.5)]
    sql("SELECT setval('pgqueue_message_id_seq', 1000)")
    assert len(sizes) >= 2
    assert 6000 < max(sizes) < 8000


def test_no_event_comes_before_the_commit_and_none_of_a_rollback(ear):
    with transaction.atomic():
        enqueue("greet")
        assert ear.heard() == []
        transaction.set_rollback(True)
    assert ear.heard() == []


def test_events_can_be_switched_off(ear):
    Queue.objects.update(events=False)
    complete(leased())
    assert ear.heard() == []


def test_a_listener_needs_autocommit(connect):
    with pytest.raises(ValueError, match="autocommit"):
        listen(connect())


PAYLOAD = {
    "event": "created",
    "at": "2030-01-01T12:00:00+01:00",
    "queue": "q",
    "channel": "c",
    "handler": "h",
    "attempts": 0,
    "ids": [1, 2],
}


def test_keys_that_a_later_version_adds_are_left_out():
    event = decode(json.dumps(PAYLOAD | {"mood": "good"}))
    assert (event.ids, event.at, event.reason) == ((1, 2), datetime(2030, 1, 1, 11, tzinfo=UTC), None)


@cases(
    "payload", ["", "default", "[1]", "7", "{}", json.dumps(PAYLOAD | {"at": "now"}), json.dumps(PAYLOAD | {"ids": 7})]
)
def test_anything_else_is_no_event(payload):
    with pytest.raises(ValueError, match="no event"):
        decode(payload)
