"""enqueued, assert_enqueued, assert_not_enqueued."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from django_pgqueue import channel_set, enqueue, handler
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.testing import assert_enqueued, assert_not_enqueued, drain, enqueued

pytestmark = pytest.mark.django_db


def said(*arguments: object, check=assert_enqueued, **options: object) -> str:
    """Return the text of the failing assertion."""
    with pytest.raises(AssertionError) as raised:
        check(*arguments, **options)
    return str(raised.value)


def test_waiting_messages_are_listed_in_their_order_with_their_channel():
    channel_set(channel="acme", queue="mail")
    enqueue("t.a", 1)
    enqueue("t.b", 2, channel="acme", queue="mail", delay=timedelta(days=1))

    assert [(message.handler, message.payload, message.channel.name) for message in enqueued()] == [
        ("t.a", 1, "default"),
        ("t.b", 2, "acme"),
    ]
    assert [message.payload for message in enqueued("t.b")] == [2]
    assert [message.payload for message in enqueued(queue="mail", channel="acme")] == [2]
    assert enqueued("t.a", queue="mail") == []


def test_a_payload_may_have_more_than_is_expected_at_any_depth():
    enqueue("t.a", {"order": {"id": 7, "lines": [1, 2]}, "by": "web"})

    [found] = assert_enqueued("t.a", {"order": {"id": 7}})
    assert found.payload["by"] == "web"
    assert_enqueued("t.a", {})
    assert_enqueued("t.a")
    assert_enqueued("t.a", {"order": {"id": 7, "lines": [1, 2]}, "by": "web"}, exact=True)

    assert 'payload["order"]["id"] is 7' in said("t.a", {"order": {"id": 8}})
    assert 'payload["customer"] is missing' in said("t.a", {"customer": 1})
    assert 'payload has "by" too' in said("t.a", {"order": {"id": 7, "lines": [1, 2]}}, exact=True)
    assert 'payload["order"]["lines"] is [1, 2]' in said("t.a", {"order": {"lines": [1]}})


def test_payloads_are_compared_as_json():
    enqueue("t.a", {"at": datetime(2026, 1, 1, tzinfo=UTC), "amount": Decimal("1.50"), "pair": (1, 2), "flag": True})

    assert_enqueued("t.a", {"at": datetime(2026, 1, 1, tzinfo=UTC), "amount": Decimal("1.50"), "pair": (1, 2)})
    said("t.a", {"flag": 1})


def test_nothing_as_payload_is_not_anything():
    enqueue("t.a", {"order": 1})

    said("t.a", None)


def test_each_argument_counts():
    channel_set(channel="acme", queue="mail")
    at = datetime(2030, 1, 1, tzinfo=UTC)
    enqueue("t.a", 1, channel="acme", queue="mail", priority=3, headers={"a": 1, "b": 2}, dedupe_key="k", dequeue_at=at)
    right = {
        "channel": "acme", "queue": "mail", "priority": 3, "headers": {"a": 1}, "dedupe_key": "k", "dequeue_at": at,
    }  # fmt: skip
    wrong = {
        "channel": "default", "queue": "default", "priority": 0, "headers": {"a": 2}, "dedupe_key": "l",
        "dequeue_at": at + timedelta(seconds=1),
    }  # fmt: skip

    assert_enqueued("t.a", 1, count=1, **right)
    for name, value in wrong.items():
        assert name in said("t.a", 1, **{**right, name: value}).rpartition("#")[2]


def test_how_many_is_an_option():
    enqueue("t.a", 1)
    enqueue("t.a", 1)

    assert len(assert_enqueued("t.a", 1, count=2)) == 2
    assert_enqueued("t.a", 2, count=0)
    assert said("t.a", 1, count=3).startswith("2 messages wait, not 3, for t.a with payload = 1.")


def test_the_handler_may_be_its_function():
    @handler("t.a")
    def a(delivery): ...

    enqueue("t.a")

    assert_enqueued(a)
    assert [message.handler for message in enqueued(a)] == ["t.a"]
    with pytest.raises(InvalidMessage, match="not registered"):
        assert_enqueued(said)


def test_the_error_shows_what_is_there_nearly_matching_first():
    channel_set(channel="acme")
    enqueue("t.other", {"order": 2})
    enqueue("t.a", {"order": 1, "by": "app"})
    enqueue("t.a", {"order": 1, "by": "web"}, channel="acme", delay=timedelta(hours=1), priority=2)

    text = said("t.a", {"order": 2, "by": "web"}, channel="acme")

    first, *rest = text.splitlines()
    assert first == 'no message waits for t.a with payload ⊇ {"order": 2, "by": "web"}, channel "acme".'
    assert rest[0] == "3 wait:"
    assert 't.a {"by": "web", "order": 1} on default/acme, scheduled at 2' in rest[1]
    assert rest[1].endswith("priority 2")
    assert rest[2] == '      payload["order"] is 1'
    assert "app" in rest[3]
    assert [line.strip() for line in rest[4:7]] == [
        'channel is "default"', 'payload["order"] is 1', 'payload["by"] is "app"',
    ]  # fmt: skip
    assert "t.other" in rest[7]


def test_the_error_says_that_it_was_handled_already():
    handler("t.a")(lambda delivery: None)
    assert said("t.a").splitlines() == ["no message waits for t.a.", "Nothing waits."]
    number = enqueue("t.a").id
    drain()

    assert said("t.a").splitlines()[1:] == ["Nothing waits.", f"Handled already: #{number} (completed)."]


def test_a_message_that_must_not_be_there_is_named():
    assert_not_enqueued()
    enqueue("t.a", {"order": 1})

    assert_not_enqueued("t.b")
    assert_not_enqueued("t.a", {"order": 2})
    assert_not_enqueued("t.a", channel="acme")
    for arguments in ((), ("t.a",), ("t.a", {"order": 1})):
        assert 't.a {"order": 1} on default/default, ready' in said(*arguments, check=assert_not_enqueued)
