"""The explanation of a message that is leased, about to be, or done; and of a place in the line."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_pgqueue import (
    Constant,
    NewMessage,
    cancel,
    channel_purge,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    enqueue_many,
    explain_channel,
    explain_message,
    pop,
    redrive,
    retry,
    sweep,
)
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Message, Worker
from tests.lifecycle.test_explain import absorbed, of_message, reason_of
from tests.support.cases import cases
from tests.support.moments import expire, pass_time
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("ticked")]


def test_a_lease_says_which_worker_has_it_until_when(worker: Worker) -> None:
    enqueue("h")
    [delivery] = dequeue(worker="host-1", lease=timedelta(minutes=1))
    Worker.objects.update(heartbeat_at=timezone.now() + timedelta(seconds=1))
    [reason] = explain_message(delivery.id)
    assert reason.code == "leased"
    assert reason.sentence.startswith("Worker host-1 has had it since ")
    assert "for attempt 1 of 5. The lease lasts until " in reason.sentence
    assert reason.sentence.endswith(" It waits in the buffer of the worker.")
    Worker.objects.update(running=[{"id": delivery.id, "seconds": 12.5, "seconds_left": 3.0}])
    [reason] = explain_message(delivery.id)
    assert reason.sentence.endswith(" It had run for 12.5 s at the last heartbeat.")
    assert reason.facts["running_seconds"] == 12.5


def test_an_expired_lease_waits_for_the_sweep(worker: Worker) -> None:
    enqueue("h", backoff=Constant(timedelta(hours=1)))  # a random delay may be over at once
    [delivery] = dequeue(worker="host-1")
    expire(delivery)
    assert of_message(delivery.id) == ["lease_expired"]
    pass_time(minutes=1)
    Worker.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert of_message(delivery.id) == ["lease_expired", "no_maintenance", "worker_silent"]
    sweep()
    assert of_message(delivery.id)[0] == "scheduled"
    assert "LeaseExpired: the lease of worker host-1 expired" in reason_of(delivery.id, "failed_before").sentence


def test_a_message_that_is_to_be_cancelled_says_so(worker: Worker) -> None:
    enqueue("h")
    [delivery] = dequeue(worker="host-1")
    cancel(delivery.id, reason="withdrawn")
    assert of_message(delivery.id) == ["leased", "cancelling"]
    assert reason_of(delivery.id, "cancelling").sentence.endswith("Reason: withdrawn")


def test_the_last_attempt_is_known_before_and_while_it_runs(worker: Worker) -> None:
    message = enqueue("h", max_attempts=2).id
    retry(dequeue(), errors=[{"type": "ValueError", "message": "bad order"}], delays=[timedelta(0)])
    assert of_message(message)[-2:] == ["last_attempt", "failed_before"]
    assert reason_of(message, "last_attempt").sentence.startswith("Its next attempt is the last (2 of 2)")
    assert reason_of(message, "failed_before").sentence.endswith(": ValueError: bad order")
    assert reason_of(message, "failed_before").facts["attempt"] == 1
    sweep()
    assert len(dequeue()) == 1
    assert reason_of(message, "last_attempt").sentence.startswith("This attempt is its last (2 of 2)")


@cases("errors", [{"just": "an object"}, ["attempt"], "attempt", 7, [[]], [{}], []])
def test_errors_of_any_shape_are_no_error(errors: object, worker: Worker) -> None:
    message = enqueue("h").id
    Message.objects.filter(pk=message).update(errors=errors)
    assert explain_message(message)


def test_a_place_counts_what_goes_before_in_the_channel_and_in_the_line(worker: Worker) -> None:
    for name in ("a", "b", "c"):
        channel_set(channel=name)
        enqueue_many(NewMessage(handler="h", channel=name) for _ in range(5))
        absorbed()
    message = Message.objects.filter(channel__name="c").latest("id").pk
    assert reason_of(message, "in_line").facts == {
        # Four of its own, and in each of four rounds one of the two others; they stand before it now, too.
        "messages_before": 4, "ready": None, "channels_before": 2, "place": 15,
    }  # fmt: skip
    assert reason_of(message, "in_line").sentence == (
        "It waits in line, about at place 15: 4 messages of its channel go before it."
        " Channels that stand before this one: 2."
    )
    urgent = enqueue("h", channel="c", priority=5).id
    absorbed()
    assert reason_of(urgent, "in_line").facts["messages_before"] == 0
    assert reason_of(message, "in_line").facts["messages_before"] == 5


def test_counts_stop_at_a_thousand(worker: Worker) -> None:
    enqueue_many(NewMessage(handler="h") for _ in range(1_200))
    absorbed()
    message = Message.objects.latest("id").pk
    assert reason_of(message, "in_line").facts["messages_before"] == 1_000
    assert "at least 1000 messages of its channel" in reason_of(message, "in_line").sentence
    [reason] = explain_channel(channel="default")
    assert reason.sentence.startswith("Ready messages: at least 1000.")


def test_the_outcome_of_a_message() -> None:
    done = enqueue("h").id
    complete(dequeue(worker="host-1"))
    popped = enqueue("h").id
    pop()
    purged, cancelled = enqueue("h").id, enqueue("h", delay=timedelta(hours=1)).id
    cancel(cancelled, reason="withdrawn")
    channel_purge(channel="default")
    assert [of_message(pk) for pk in (done, popped, purged, cancelled)] == [
        ["completed"], ["popped"], ["purged"], ["cancelled"],
    ]  # fmt: skip
    channel_set(channel="default", max_size=1, full_policy="replace")
    dropped = enqueue("h").id
    enqueue("h")
    assert reason_of(dropped, "dropped").sentence.endswith(", before any delivery.")
    assert reason_of(done, "completed").sentence.endswith(" by worker host-1, at attempt 1 of 5.")
    assert reason_of(purged, "purged").sentence.endswith(", before any delivery.")
    assert reason_of(cancelled, "cancelled").sentence.endswith(" Reason: withdrawn")


def test_a_dead_letter_says_why_and_what_its_new_life_is() -> None:
    message = enqueue("h").id
    dead_letter(dequeue(), reason="no_such_order", details={"message": "order 7"})
    assert of_message(message) == ["dead"]
    assert reason_of(message, "dead").sentence.endswith("at attempt 1 of 5: no_such_order. order 7")
    new = redrive([message])[message]
    assert of_message(message) == ["dead", "redriven"]
    assert reason_of(message, "redriven").facts["redriven_to"] == new


def test_a_message_that_does_not_exist_is_reported_as_unknown() -> None:
    message = enqueue("h").id
    sql("DELETE FROM pgqueue_message WHERE id = %s", message)
    assert "rolled back" in reason_of(message, "unknown").sentence
    assert reason_of(message + 1_000_000, "unknown").sentence.endswith(
        f"the newest id that was given out is {message}."
    )
    with refused(InvalidMessage):
        explain_message(2**70)
