"""Every reason why a message may wait is made for real, reported, and gone with its cause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_pgqueue import (
    channel_pause,
    channel_release,
    channel_resume,
    channel_set,
    complete,
    dequeue,
    enqueue,
    explain_channel,
    explain_message,
    queue_pause,
    queue_resume,
    retry,
    sweep,
)
from django_pgqueue.lifecycle.figures import Reason
from django_pgqueue.lifecycle.settle import defer_unknown
from django_pgqueue.models import Channel, Worker
from tests.support.moments import expire, pass_time
from tests.support.sql import sql
from tests.support.workers import make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("ticked")]


def of_message(message: int) -> list[str]:
    return [reason.code for reason in explain_message(message)]


def of_channel(name: str = "default") -> list[str]:
    return [reason.code for reason in explain_channel(channel=name)]


def reason_of(message: int, code: str) -> Reason:
    [reason] = [reason for reason in explain_message(message) if reason.code == code]
    return reason


def absorbed() -> None:
    """The line knows what has arrived."""
    sql("SELECT pgqueue_tick()")


def test_a_message_that_nothing_holds_up_is_next(worker: Worker) -> None:
    message = enqueue("h").id
    absorbed()
    assert explain_message(message) == [
        Reason(
            "in_line", "It is next in line.", {"messages_before": 0, "ready": None, "channels_before": 0, "place": 1}
        )
    ]


def test_a_message_that_the_line_does_not_know_yet_is_reported(worker: Worker) -> None:
    message = enqueue("h").id
    assert of_message(message) == of_channel() == ["arriving", "in_channel"]
    pass_time(minutes=1)
    assert of_message(message) == ["arriving", "no_maintenance", "in_channel"]


def test_without_a_worker_the_queue_is_not_served() -> None:
    message = enqueue("h").id
    assert of_message(message)[0] == of_channel()[0] == "no_worker"
    assert reason_of(message, "no_worker").sentence == "No worker serves queue default."
    make_worker("host-1", queues=["mails"])
    assert of_message(message)[0] == "no_worker"
    silent = make_worker("host-2", heartbeat_at=timezone.now() - timedelta(minutes=2))
    assert "The last heartbeat of one was at" in reason_of(message, "no_worker").sentence
    stopping = make_worker("host-3", state="stopping")
    assert reason_of(message, "no_worker").facts["stopping"] == 1
    assert reason_of(message, "no_worker").sentence.endswith("Stopping: 1.")
    Worker.objects.filter(pk=stopping.pk).update(state="running")
    assert "no_worker" not in of_message(message)
    silent.delete()


def test_workers_that_are_all_paused_are_reported_with_the_reason(worker: Worker) -> None:
    message = enqueue("h").id
    Worker.objects.update(paused_at=timezone.now(), pause_reason="looking at it")
    assert reason_of(message, "workers_paused").sentence == (
        "All workers of queue default (1) are paused. Reason: looking at it"
    )
    make_worker("host-2")
    assert "workers_paused" not in of_message(message)


def test_workers_that_are_all_busy_are_reported(worker: Worker) -> None:
    message = enqueue("h").id
    running = [{"id": 1, "seconds": 700.5, "seconds_left": None}, {"id": 2, "seconds": 3.0, "seconds_left": None}]
    Worker.objects.update(running=running)
    assert reason_of(message, "workers_busy").sentence == (
        "All workers of queue default (1) are busy: they run 2 messages, the longest for 700.5 s."
    )
    Worker.objects.update(running=running[:1])
    assert "workers_busy" not in of_message(message)


def test_a_paused_queue_and_a_paused_channel_are_reported_with_their_reasons(worker: Worker) -> None:
    message = enqueue("h").id
    queue_pause("default", reason="the database moves")
    channel_pause(channel="default", reason="their server is down")
    assert of_message(message)[:2] == of_channel()[:2] == ["queue_paused", "channel_paused"]
    assert reason_of(message, "queue_paused").sentence.endswith("Reason: the database moves")
    assert reason_of(message, "channel_paused").facts["reason"] == "their server is down"
    queue_resume("default")
    channel_resume(channel="default")
    absorbed()
    assert of_message(message) == of_channel() == ["in_line"]


def test_a_channel_at_its_limit_names_the_holders_of_its_places(worker: Worker) -> None:
    channel_set(channel="default", max_concurrency=3)
    messages = [enqueue("h").id for _ in range(5)]
    dequeue(limit=2, worker="host-1")
    [last] = dequeue(limit=1, worker="host-2")
    expire(last)
    reason = reason_of(messages[4], "concurrency")
    assert reason.sentence == (
        "Channel default is at its limit: 3 of 3 messages are leased, held by host-1 (2), host-2 (1)."
        " Expired, and waiting for the sweep: 1."
    )
    assert (reason.facts["running"], reason.facts["max_concurrency"], reason.facts["expired"]) == (3, 3, 1)
    assert [(held["worker"], held["messages"]) for held in reason.facts["held_by"]] == [("host-1", 2), ("host-2", 1)]
    assert reason_of(messages[4], "in_channel").facts["messages_before"] == 1
    assert "concurrency" in of_channel()
    channel_set(channel="default", max_concurrency=4)
    assert "concurrency" not in of_message(messages[4])


def test_a_rate_says_when_the_next_delivery_may_be(worker: Worker) -> None:
    channel_set(channel="default", release_interval=timedelta(minutes=10), release_burst=2)
    messages = [enqueue("h").id for _ in range(3)]
    dequeue()
    assert "rate" not in of_message(messages[2])
    dequeue()
    assert of_message(messages[2]) == ["rate", "in_channel"]
    assert "once in 00:10:00: the next time at" in reason_of(messages[2], "rate").sentence
    [[due]] = sql(
        "SELECT parked_until = %s::timestamptz FROM pgqueue_lane", reason_of(messages[2], "rate").facts["next_at"]
    )
    assert due
    pass_time(minutes=11)
    assert "rate" not in of_message(messages[2])


def test_limits_do_not_hold_up_a_channel_that_was_released(worker: Worker) -> None:
    channel_set(channel="default", max_concurrency=1, release_interval=timedelta(minutes=10))
    messages = [enqueue("h").id for _ in range(2)]
    dequeue()
    channel_pause(channel="default", reason="why")
    channel_release(channel="default")
    absorbed()
    assert of_message(messages[1]) == ["in_line"]
    assert of_channel() == ["in_line", "released"]


def test_a_message_that_is_due_and_not_promoted_is_reported(worker: Worker) -> None:
    message = enqueue("h", delay=timedelta(minutes=1)).id
    pass_time(minutes=2)
    assert of_message(message) == ["due", "no_maintenance"]
    sweep()
    assert of_message(message)[-1] in ("in_line", "in_channel")


def test_a_channel_without_its_row_is_reported(worker: Worker) -> None:
    channel_set(channel="doomed")
    message = enqueue("h", channel="doomed").id
    Channel.objects.filter(name="doomed").delete()
    assert of_message(message)[0] == "channel_missing"


def test_an_empty_channel_says_what_is_leased_and_when_the_next_one_is_due(worker: Worker) -> None:
    [reason] = explain_channel(channel="default")
    assert (reason.code, reason.sentence) == ("empty", "Nothing of it is ready. Leased messages: 0.")
    enqueue("h")
    dequeue()
    later = enqueue("h", delay=timedelta(hours=1)).id
    channel_set(channel="other")
    enqueue("h", channel="other", delay=timedelta(minutes=1))
    [reason] = explain_channel(channel="default")
    assert reason.facts["leased"] == 1
    [[same]] = sql("SELECT dequeue_at = %s::timestamptz FROM pgqueue_message WHERE id = %s",
                   reason.facts["dequeue_at"], later)  # fmt: skip
    assert same
    assert " The next one is due at " in reason.sentence
    pass_time(hours=2)
    [reason] = explain_channel(channel="default")
    assert "and is not promoted yet: the next tick does it" in reason.sentence


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("error", "A new message is refused."),
        ("drop", "A new message is dropped."),
        ("drop_oldest", "A new message drops the oldest one that waits."),
        ("replace", "A new message drops all that wait."),
    ],
)
def test_a_full_channel_says_so_and_what_happens_to_new_messages(worker: Worker, policy: Any, sentence: str) -> None:
    channel_set(channel="default", max_size=2, full_policy=policy)
    enqueue("h")
    assert "full" not in of_channel()
    enqueue("h")
    [full] = [reason for reason in explain_channel(channel="default") if reason.code == "full"]
    assert full.sentence == f"It is full: it holds 2 of 2 messages (max_size). {sentence}"
    assert full.facts == {"live": 2, "max_size": 2, "full_policy": policy}
    complete(dequeue())
    assert "full" not in of_channel()


def test_a_channel_whose_messages_failed_is_not_just_empty(worker: Worker) -> None:
    for _ in range(2):
        enqueue("h", max_attempts=3)
    enqueue("h", delay=timedelta(hours=2))
    first, second = dequeue(limit=10)
    error = {"type": "KeyError", "message": "'currency'"}
    retry([first, second], errors=[error] * 2, delays=[timedelta(minutes=5), timedelta(minutes=9)])
    failed, empty = explain_channel(channel="default")
    assert (failed.code, empty.code) == ("failed_before", "empty")
    assert failed.sentence == (
        f"Messages of it that failed and wait for their next attempt: 2. The first is message {first.id}: KeyError."
    )
    assert "currency" not in str(failed), "a user who may see the channel may see no errors"
    assert failed.facts == {"message": first.id, "handler": "h", "messages": 2}


def test_a_channel_whose_handler_no_worker_knows_says_so(worker: Worker) -> None:
    message = enqueue("mail.sned").id
    defer_unknown(dequeue(), errors=[{"type": "django_pgqueue.exceptions.UnknownHandler"}])
    unknown, empty = explain_channel(channel="default")
    assert (unknown.code, empty.code) == ("unknown_handler", "empty")
    assert unknown.sentence == (
        f"Messages of it that wait for a worker that knows their handler: 1. The first is message {message}: mail.sned."
    )


def test_to_explain_changes_nothing(worker: Worker) -> None:
    """Read-only, also by the transaction: it runs on a standby."""
    message = enqueue("h").id
    sql("SET TRANSACTION READ ONLY")
    assert explain_message(message)
    assert explain_channel(channel="default")
