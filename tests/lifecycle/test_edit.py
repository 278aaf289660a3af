from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import complete, dequeue, edit, enqueue
from django_pgqueue.exceptions import InvalidMessage
from tests.support.messages import live
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("payload", [{"n": 2}, None, [], "text"])
def test_a_waiting_message_gets_another_payload_and_keeps_its_place(payload):
    first, second = enqueue("h", {"n": 1}), enqueue("h")
    assert edit(first.id, payload) == "edited"
    assert [(delivery.id, delivery.payload) for delivery in dequeue(limit=2)] == [(first.id, payload), (second.id, {})]


def test_a_scheduled_one_too():
    sent = enqueue("h", delay=timedelta(hours=1))
    assert edit(sent.id, 7) == "edited"
    assert live(sent.id, "payload", "status") == ("7", 3)


def test_a_leased_message_stays_as_it_is():
    enqueue("h", 1)
    [held] = dequeue()
    assert edit(held.id, 2) == "leased"
    assert live(held.id, "payload") == "1"
    complete(held)
    assert edit(held.id, 2) == "settled"
    assert edit(10**15, 2) == "not_found"


def test_a_value_that_is_no_payload_is_refused():
    sent = enqueue("h", {})
    with refused(InvalidMessage, "not JSON"):
        edit(sent.id, object())
    with refused(InvalidMessage, "u0000"):
        edit(sent.id, "a\0b")
    assert live(sent.id, "payload") == "{}"
