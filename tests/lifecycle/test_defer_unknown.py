from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from django_pgqueue import Delivery, cancel, dequeue, enqueue, explain_message
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.lifecycle.settle import defer_unknown
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.support.messages import live
from tests.support.moments import pass_time
from tests.support.sql import sql

pytestmark = pytest.mark.django_db

UNKNOWN = {"type": "django_pgqueue.exceptions.UnknownHandler", "message": "No handler is called 'h' in this worker."}


def give_back(*deliveries: Delivery, **options: object) -> dict[int, str]:
    return defer_unknown(deliveries, errors=[UNKNOWN] * len(deliveries), **options)


def wait(minutes: float) -> None:
    """Also since the handler was found to be unknown."""
    pass_time(minutes=minutes)


def pause(message: int) -> timedelta:
    [(left,)] = sql("SELECT dequeue_at - clock_timestamp() FROM pgqueue_message WHERE id = %s", message)
    return left


def test_the_message_waits_and_its_attempt_is_given_back():
    sent = enqueue("h", max_attempts=1)
    for _ in range(3):
        [delivery] = dequeue()
        assert delivery.attempt == 1
        assert give_back(delivery) == {sent.id: "deferred"}
        assert live(sent.id, "attempts", "status") == (0, Message.Status.SCHEDULED)
        wait(minutes=2)


def test_why_it_waits_is_kept_once():
    sent = enqueue("h")
    for _ in range(3):
        [delivery] = dequeue(worker="old")
        give_back(delivery)
        wait(minutes=1)
    [error] = Message.objects.get(id=sent.id).errors
    assert (error["type"], error["attempt"], error["worker"]) == (UNKNOWN["type"], 1, "old")


def test_it_is_dead_lettered_when_the_grace_has_passed_since_the_first_time():
    sent = enqueue("h")
    wait(minutes=60)
    [delivery] = dequeue()
    assert give_back(delivery) == {sent.id: "deferred"}
    wait(minutes=9)
    assert give_back(*dequeue()) == {sent.id: "deferred"}
    wait(minutes=1)
    assert give_back(*dequeue()) == {sent.id: "dead_lettered"}
    letter = DeadLetter.objects.get()
    assert (letter.id, letter.reason, len(letter.errors)) == (sent.id, "unknown_handler", 1)


def test_the_setting_says_how_long(settings: Any):
    settings.DJANGO_PGQUEUE = {"UNKNOWN_HANDLER_GRACE": timedelta(0)}
    sent = enqueue("h")
    assert give_back(*dequeue()) == {sent.id: "dead_lettered"}
    assert DeadLetter.objects.get().errors[0]["message"] == UNKNOWN["message"]


def test_each_pause_is_as_long_as_the_wait_so_far_up_to_a_tenth_of_the_grace():
    sent = enqueue("h")
    pauses = []
    for minutes in (0, 0.5, 4):
        wait(minutes)
        give_back(*dequeue())
        pauses.append(round(pause(sent.id).total_seconds()))
    assert pauses == [1, 30, 60]


def test_a_message_that_is_to_be_cancelled_goes_to_the_archive():
    sent = enqueue("h")
    [delivery] = dequeue()
    cancel(sent.id)
    assert give_back(delivery) == {sent.id: "cancelled"}
    assert ArchivedMessage.objects.get().outcome == "cancelled"


def test_a_lost_lease_changes_nothing():
    sent = enqueue("h")
    [delivery] = dequeue()
    lost = replace(delivery, token=uuid4())
    with pytest.raises(LeaseLost), transaction.atomic():
        give_back(lost)
    assert give_back(lost, skip_lost=True) == {}
    assert live(sent.id, "status", "errors") == (Message.Status.LEASED, None)


def test_the_explanation_says_what_it_waits_for(ticked: None, worker: object):
    sent = enqueue("h")
    give_back(*dequeue())
    reasons = {reason.code: reason for reason in explain_message(sent.id)}
    assert "failed_before" not in reasons
    assert "do not know its handler h" in reasons["unknown_handler"].sentence
    assert reasons["unknown_handler"].facts["handler"] == "h"
