"""A pause of a channel, a queue, a shared limit or a handler, until somebody or its end resumes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest
from django.utils import timezone

from django_pgqueue import (
    Delivery,
    channel_pause,
    channel_resume,
    channel_set,
    complete,
    defer,
    dequeue,
    enqueue,
    explain_channel,
    handler,
    handler_pause,
    handler_resume,
    heartbeat,
    limit_pause,
    limit_resume,
    limit_set,
    peek,
    pop,
    queue_pause,
    queue_resume,
    retry,
    sweep,
)  # fmt: skip
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.upkeep import tick
from django_pgqueue.models import Channel, Message, Queue, SharedLimit
from tests.support.moments import pass_time
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


class Pause(NamedTuple):
    """What pauses and resumes one thing, its row, and what a message has that goes on."""

    pause: Callable[..., Any]
    resume: Callable[..., Any]
    row: Callable[[], Any]
    free: dict[str, Any]


PAUSES = {
    "channel": Pause(
        partial(channel_pause, channel="default"), partial(channel_resume, channel="default"),
        lambda: Channel.objects.get(name="default", queue="default"), {"channel": "other"},
    ),
    "queue": Pause(queue_pause, queue_resume, lambda: Queue.objects.get(), {"queue": "emails"}),
    "limit": Pause(
        partial(limit_pause, "stripe"), partial(limit_resume, "stripe"),
        lambda: SharedLimit.objects.get(name="stripe"), {"limits": []},
    ),
    "handler": Pause(
        partial(handler_pause, "mail"), partial(handler_resume, "mail"),
        lambda: SharedLimit.objects.get(name="handler mail"), {"handler": "h"},
    ),
}  # fmt: skip
kinds = pytest.mark.parametrize("kind", PAUSES)


@pytest.fixture(autouse=True)
def _places() -> None:
    channel_set(channel="other")
    channel_set(channel="default", queue="emails")
    limit_set("stripe", max_concurrency=5)


def send(kind: str, **fields: Any) -> int | None:
    """Enqueue a message that the pause holds up, if the fields say nothing else."""
    limits = ["stripe"] if kind == "limit" else []
    return enqueue(**{"handler": "mail", "limits": limits, **fields}).id


def delivered() -> list[int]:
    return [delivery.id for queue in ("default", "emails") for delivery in dequeue(queue, limit=10)]


def in_an_hour() -> datetime:
    return timezone.now() + timedelta(hours=1)


def hours_pass(hours: int = 2) -> None:
    pass_time(hours=hours)
    sql("UPDATE pgqueue_limit SET paused_until = paused_until - %s * interval '1 hour'", hours)


@kinds
def test_its_messages_wait_until_it_is_resumed_and_others_go_on(kind: str) -> None:
    pause, resume, row, free = PAUSES[kind]
    held = [send(kind) for _ in range(3)]
    pause(reason="the bank is closed")
    held.append(send(kind))
    other = send(kind, **free)
    assert delivered() == [other]
    assert delivered() == pop(limit=10) == []
    if kind in ("channel", "queue"):
        assert [seen.id for seen in peek(limit=10)] == held
    assert (row().pause_reason, row().paused_until) == ("the bank is closed", None)
    assert row().paused_at
    assert set(Message.objects.filter(id__in=held).values_list("attempts", flat=True)) == {0}

    resume()

    assert sorted(message for _ in range(3) for message in delivered()) == held
    assert (row().paused_at, row().pause_reason) == (None, "")


@kinds
def test_messages_that_were_leased_before_the_pause_are_settled_as_usual(kind: str) -> None:
    pause, resume, _, _ = PAUSES[kind]
    for _ in range(2):
        send(kind)
    first, second = dequeue(limit=2)
    pause()
    heartbeat([first, second])
    assert complete(first) == {first.id}
    defer(second)
    assert dequeue() == []
    resume()
    assert delivered() == [second.id]


@kinds
def test_retries_and_what_becomes_due_wait_too(kind: str) -> None:
    pause, resume, _, _ = PAUSES[kind]
    held = {send(kind), send(kind, delay=timedelta(minutes=1))}
    [delivery] = dequeue()
    pause()
    retry(delivery, errors=[{}], delays=[timedelta(0)])
    pass_time(minutes=1)
    assert dequeue(limit=10) == []
    resume()
    assert {message for _ in range(2) for message in delivered()} == held


@kinds
def test_a_second_pause_keeps_the_moment_and_takes_the_new_reason(kind: str) -> None:
    pause, _, row, _ = PAUSES[kind]
    pause(reason="first")
    paused_at = row().paused_at
    pause(reason="second")
    assert (row().paused_at, row().pause_reason) == (paused_at, "second")


@kinds
def test_the_sweep_resumes_when_the_time_has_come(kind: str) -> None:
    pause, _, row, _ = PAUSES[kind]
    send(kind)
    pause(reason="closed", until=in_an_hour())
    assert sweep().resumed == 0
    assert dequeue() == []
    hours_pass()
    assert sweep().resumed == 1
    assert (row().paused_at, row().paused_until, row().pause_reason) == (None, None, "")
    assert len(dequeue()) == 1


@kinds
def test_a_pause_without_an_end_stays(kind: str) -> None:
    pause, _, row, _ = PAUSES[kind]
    pause(until=in_an_hour())
    pause()
    hours_pass()
    assert sweep().resumed == 0
    assert row().paused_at


def test_a_pause_ends_with_the_next_tick_and_waits_for_no_sweep() -> None:
    send("limit")
    for kind in ("channel", "queue", "limit"):
        PAUSES[kind].pause(until=in_an_hour())
    hours_pass()
    tick()
    assert len(dequeue()) == 1


def test_the_explanation_says_until_when() -> None:
    channel_pause(channel="default", until=in_an_hour())
    queue_pause(until=in_an_hour())
    reasons = {reason.code: reason for reason in explain_channel(channel="default")}
    for code in ("channel_paused", "queue_paused"):
        assert " until " in reasons[code].sentence
        assert reasons[code].facts["until"]


def test_an_edit_of_a_channels_row_resumes_as_well() -> None:
    enqueue("h")
    channel_pause(channel="default")
    assert dequeue() == []
    Channel.objects.update(paused_at=None)
    assert len(dequeue()) == 1


def test_no_warning_says_that_a_paused_queue_is_not_picked_up(server_log: list[str]) -> None:
    enqueue("h")
    queue_pause()
    pass_time(minutes=5)
    assert sweep().not_picked_up == 0
    assert server_log == []
    queue_resume()
    assert sweep().not_picked_up == 1


def test_a_queue_with_a_row_of_its_own_can_be_paused_before_its_first_channel() -> None:
    Queue.objects.create(name="new")
    queue_pause("new")
    channel_set(channel="default", queue="new")
    enqueue("h", queue="new")
    assert dequeue("new") == []


@pytest.mark.django_db(transaction=True)
def test_resume_of_a_queue_wakes_sleeping_workers(connect: Any) -> None:
    listener = connect(autocommit=True)
    listener.execute("LISTEN pgqueue")
    queue_pause()
    enqueue("h")
    sql("SELECT pgqueue_wait('worker 7', '{default}', '1 hour')")
    list(listener.notifies(timeout=0.2, stop_after=1))
    queue_resume()
    [notification] = listener.notifies(timeout=200, stop_after=1)
    assert notification.payload == "default"


def test_a_decorated_function_stands_for_its_name(handlers_restored: None) -> None:
    @handler("mail.send")
    def send(delivery: Delivery) -> None: ...

    send.enqueue()
    handler_pause(send)
    assert dequeue() == []
    handler_resume(send)
    assert len(dequeue()) == 1


def test_invalid_names_and_times_are_refused_for_a_limit_and_a_handler() -> None:
    for verb in (handler_pause, handler_resume, limit_pause, limit_resume):
        with refused(InvalidMessage, "neither a name nor a function|name is not a str"):
            verb(5)  # type: ignore[operator]
    for verb in (limit_pause, limit_resume):
        with refused(InvalidMessage, "there is no limit"):
            verb("paypal")
    with refused(InvalidMessage, "not registered"):
        handler_pause(print)  # type: ignore[arg-type]
    with refused(InvalidMessage, "reason is not a str"):
        handler_pause("mail", reason=5)  # type: ignore[arg-type]
    for pause in (partial(handler_pause, "mail"), partial(limit_pause, "stripe")):
        with refused(InvalidMessage, "until"):
            pause(until=datetime(2020, 1, 1, tzinfo=UTC))
        with refused(InvalidMessage, "naive"):
            pause(until=datetime(2030, 1, 1))  # noqa: DTZ001
    assert not SharedLimit.objects.filter(paused_at__isnull=False).exists()
