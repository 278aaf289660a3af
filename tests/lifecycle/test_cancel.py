from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from django_pgqueue import cancel, complete, dead_letter, defer, dequeue, enqueue, heartbeat, retry, sweep
from django_pgqueue.exceptions import LeaseLost, MessageNotFound
from django_pgqueue.models import ArchivedMessage, DeadLetter
from tests.support.messages import lease_message, live, places
from tests.support.moments import expire
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


leased = partial(lease_message, worker="worker 7")


def archived(message: int) -> ArchivedMessage:
    return ArchivedMessage.objects.get(pk=message)


def test_waiting_messages_go_to_the_archive_with_the_reason():
    ready, later = enqueue("h", {"n": 1}), enqueue("h", delay=timedelta(hours=1))
    answer = cancel([ready.id, later.id], reason="withdrawn")
    assert answer == {ready.id: "cancelled", later.id: "cancelled"}
    assert places(ready.id) == places(later.id) == ["archive"]
    message = archived(ready.id)
    assert (message.outcome, message.result, message.payload) == ("cancelled", {"reason": "withdrawn"}, {"n": 1})
    assert (message.attempts, message.lease_token) == (0, None)
    assert dequeue() == []


def test_the_holder_of_a_lease_is_asked_to_stop():
    delivery = leased()
    assert heartbeat(delivery) == {delivery.id: False}
    assert cancel(delivery.id, reason="withdrawn") == {delivery.id: "requested"}
    assert heartbeat(delivery) == {delivery.id: True}
    assert places(delivery.id) == ["live"]
    assert live(delivery.id, "cancel_reason") == "withdrawn"


def test_asked_twice_it_is_still_asked_and_keeps_when_and_why():
    delivery = leased()
    cancel(delivery.id, reason="withdrawn")
    before = live(delivery.id, "cancelled_at", "cancel_reason")
    assert cancel(delivery.id) == {delivery.id: "requested"}
    assert live(delivery.id, "cancelled_at", "cancel_reason") == before


def test_a_message_that_is_completed_all_the_same_is_completed():
    delivery = leased()
    cancel(delivery.id)
    assert complete(delivery, results=["done"]) == {delivery.id}
    assert (archived(delivery.id).outcome, archived(delivery.id).result) == ("completed", "done")


def test_without_words_of_its_handler_the_reason_of_the_cancel_is_kept():
    delivery, other = leased(), leased()
    cancel(delivery.id, reason="withdrawn")
    complete([delivery, other], cancelled=True)
    assert (archived(delivery.id).result, archived(other.id).result) == ({"reason": "withdrawn"}, None)


def test_its_handler_may_end_it_as_cancelled():
    delivery = leased()
    cancel(delivery.id, reason="withdrawn")
    assert complete(delivery, results=[{"reason": "stopped at row 7"}], cancelled=True) == {delivery.id}
    assert archived(delivery.id).outcome == "cancelled"
    assert archived(delivery.id).result == {"reason": "stopped at row 7"}


def test_it_is_not_deferred_any_more():
    delivery, other = leased(), leased()
    cancel(delivery.id, reason="withdrawn")
    answer = defer([delivery, other], delay=timedelta(hours=1), state={"page": 2})
    assert answer == {delivery.id: "cancelled", other.id: "deferred"}
    message = archived(delivery.id)
    assert (message.outcome, message.result, message.attempts) == ("cancelled", {"reason": "withdrawn"}, 1)
    assert (message.state, message.lease_token, message.worker) == ({"page": 2}, delivery.token, "worker 7")


def test_it_is_not_retried_any_more():
    delivery, other = leased(), leased()
    cancel(delivery.id)
    answer = retry([delivery, other], errors=[{"type": "ValueError"}, {"type": "ValueError"}])
    assert answer == {delivery.id: "cancelled", other.id: "retried"}
    [error] = archived(delivery.id).errors
    assert (error["attempt"], error["type"]) == (1, "ValueError")


def test_when_its_worker_dies_it_is_cancelled():
    delivery = leased()
    cancel(delivery.id)
    expire(delivery)
    counts = sweep()
    assert (counts.cancelled, counts.retried, counts.poisoned) == (1, 0, 0)
    assert archived(delivery.id).errors[0]["type"] == "LeaseExpired"
    with refused(LeaseLost):
        complete(delivery)


def test_settled_messages_stay_as_they_are():
    done, dead = leased(), leased()
    complete(done)
    dead_letter(dead, reason="no_such_order")
    assert cancel([done.id, dead.id]) == {done.id: "settled", dead.id: "settled"}
    assert archived(done.id).outcome == "completed"
    assert DeadLetter.objects.get().reason == "no_such_order"


def test_one_message_that_is_unknown_is_an_error():
    with refused(MessageNotFound, "no message 123456789") as raised:
        cancel(123456789)
    assert raised.value.hint


def test_of_many_each_gets_its_answer():
    waiting, held = enqueue("h"), leased()
    # The first is leased by now: it was the older one.
    answer = cancel([held.id, waiting.id, 123456789])
    assert answer == {waiting.id: answer[waiting.id], held.id: "requested", 123456789: "not_found"}
