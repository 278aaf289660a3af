"""Interruptions: a stop of the worker uses up no attempt, and has a bound of its own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from django_pgqueue import (
    Breaker,
    breaker_set,
    cancel,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    explain_message,
    redrive,
    retry,
)
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.support.messages import lease_messages, live
from tests.support.moments import pass_time

pytestmark = pytest.mark.django_db

STOPPED = {"type": "WorkerStopped", "message": "SIGTERM"}
OOPS = {"type": "ValueError", "message": "oops"}


def interrupt(most: int = 20) -> str:
    [delivery] = dequeue()
    outcome = retry(delivery, errors=[STOPPED], reason="stopped", max_interruptions=most)[delivery.id]
    pass_time(hours=2)
    return outcome


def fail() -> str:
    [delivery] = dequeue()
    outcome = retry(delivery, errors=[OOPS])[delivery.id]
    pass_time(hours=2)
    return outcome


def test_interruptions_use_up_no_attempt() -> None:
    message = enqueue("mail.send", max_attempts=2).id
    assert [interrupt(), fail(), interrupt(), interrupt()] == ["retried"] * 4
    row = Message.objects.get(id=message)
    assert row.attempts == 1
    assert [(each.get("attempt"), each.get("interruption")) for each in row.errors] == [
        (None, 1), (1, None), (None, 2), (None, 3),
    ]  # fmt: skip
    # The attempts have their own bound, as before.
    assert fail() == "dead_lettered"
    assert DeadLetter.objects.get(id=message).reason == "failed"


def test_a_message_that_is_interrupted_too_often_becomes_a_dead_letter() -> None:
    message = enqueue("mail.send", max_attempts=5).id
    assert [interrupt(3) for _ in range(3)] == ["retried", "retried", "dead_lettered"]
    letter = DeadLetter.objects.get(id=message)
    assert (letter.reason, letter.attempts) == ("stopped", 1)
    [dead] = explain_message(message)
    assert "at attempt 1 of 5 and after 3 interruption(s): stopped" in dead.sentence
    assert dead.facts["interruptions"] == 3
    # A new life begins without them.
    redrive(message)
    assert interrupt(2) == "retried"


def test_the_last_attempt_may_be_interrupted() -> None:
    enqueue("mail.send", max_attempts=1)
    assert [interrupt(), interrupt()] == ["retried", "retried"]
    assert fail() == "dead_lettered"


def test_a_message_explains_its_interruptions() -> None:
    message = enqueue("mail.send").id
    interrupt()
    interrupt()
    [found] = [each for each in explain_message(message) if each.code == "interrupted"]
    assert found.sentence.startswith("It was interrupted 2 time(s)")
    assert found.facts == {"interruptions": 2}
    assert "failed_before" not in {each.code for each in explain_message(message)}


def test_an_interrupted_message_with_a_requested_cancellation_goes_to_the_archive() -> None:
    [delivery] = lease_messages()
    cancel(delivery.id)
    assert retry(delivery, errors=[STOPPED], max_interruptions=20) == {delivery.id: "cancelled"}
    assert ArchivedMessage.objects.get(id=delivery.id).attempts == 1


def test_an_ordered_channel_keeps_the_place_of_an_interrupted_message() -> None:
    channel_set(channel="acme", queue="mails", ordered=True)
    first, second = (enqueue("mail.send", channel="acme", queue="mails").id for _ in range(2))
    [delivery] = dequeue("mails")
    assert delivery.id == first
    retry(delivery, errors=[STOPPED], max_interruptions=20)
    assert live(first, "attempts") == 0
    pass_time(hours=2)
    [again] = dequeue("mails")
    assert (again.id, again.attempt) == (first, 1)
    complete(again)
    [next_one] = dequeue("mails")
    assert next_one.id == second


def test_an_archive_of_outcomes_keeps_the_count() -> None:
    message = enqueue("mail.send").id
    interrupt()
    complete(dequeue(), archive="outcome")
    [error] = ArchivedMessage.objects.get(id=message).errors
    assert error["interruption"] == 1


def test_a_breaker_does_not_count_them() -> None:
    breaker_set("h", Breaker(failures=1))
    [first, second] = lease_messages(2)
    waiting = enqueue("h").id
    retry(first, errors=[STOPPED], delays=[timedelta(hours=1)], max_interruptions=20)
    assert "breaker_open" not in {each.code for each in explain_message(waiting)}
    retry(second, errors=[OOPS])
    assert "breaker_open" in {each.code for each in explain_message(waiting)}


def test_a_bound_below_one_is_refused() -> None:
    [delivery] = lease_messages()
    with pytest.raises(InvalidMessage, match="max_interruptions is 0"), transaction.atomic():
        retry(delivery, errors=[STOPPED], max_interruptions=0)
    dead_letter(delivery, reason="rejected")
