"""Steps that sleep or wait for an event: the worker is free meanwhile, and no attempt is used."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_pgqueue import (
    cancel,
    channel_set,
    dequeue,
    discard,
    enqueue,
    explain_message,
    handler,
    prune,
    redrive,
    reschedule,
    retry,
    sweep,
)  # fmt: skip
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import EventTimeout, InvalidMessage
from django_pgqueue.flow import Steps, anotify_event, asteps_of, notify_event, steps_of
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.testing import Drained, drain, freeze_clock
from tests.support.sql import sql

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers_restored")]

NOON = datetime(2031, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
numbers = count()


def job(work: Callable[[Steps], Any], **options: Any) -> tuple[int, list[Any]]:
    """Enqueue a message whose handler calls ``work``. Returns its id, and a list that gets what ``work`` returns."""
    found: list[Any] = []
    name = f"job {next(numbers)}"

    @handler(name)
    def _job(delivery: Delivery[Any]) -> None:
        assert delivery.attempt == 1
        found.append(work(steps_of(delivery)))

    return enqueue(name, max_attempts=1, **options).id, found


def taken() -> Delivery[Any]:
    enqueue("job")
    [delivery] = dequeue()
    return delivery


def ended(drained: Drained) -> list[str]:
    return [each.event for each in drained.handled]


@pytest.mark.parametrize("until", [7 * DAY, NOON + 7 * DAY])
def test_a_sleep_gives_the_worker_back_and_is_passed_when_its_time_has_come(until: Any):
    with freeze_clock(NOON) as clock:
        channel_set(channel="small", max_concurrency=1)
        message, found = job(lambda step: [step.sleep("cool", until), step("then", lambda: 1)], channel="small")
        assert ended(drain()) == ["deferred"]
        row = Message.objects.get(id=message)
        assert (row.status, row.attempts, row.dequeue_at, row.lease_token) == (3, 0, NOON + 7 * DAY, None)
        [reason] = [each for each in explain_message(message) if each.code == "blocked"]
        assert reason.sentence == 'It sleeps in its step "cool" until 2031-01-08 12:00:00+00.'
        enqueue("other", channel="small")
        assert [each.handler for each in dequeue()] == ["other"]
        sql("DELETE FROM pgqueue_message WHERE handler = 'other'")
        clock.tick(7 * DAY - timedelta(microseconds=1))
        assert ended(drain()) == []
        clock.tick()
        assert ended(drain()) == ["completed"]
    assert found == [[None, 1]]
    assert sql("SELECT count(*) FROM pgqueue_step") == [(0,)]


def test_a_drain_with_scheduled_passes_sleeps_and_timeouts():
    _, found = job(lambda step: [step.sleep("a", DAY), step.sleep("b", DAY), caught(step, "never", DAY)])
    assert ended(drain(with_scheduled=True)) == ["deferred"] * 3 + ["completed"]
    assert found == [[None, None, "late"]]


def caught(step: Steps, event: str, *timeout: timedelta) -> Any:
    try:
        return step.wait(event, *timeout)
    except EventTimeout:
        return "late"


def test_an_event_that_comes_later_lets_the_message_go_on():
    message, found = job(lambda step: step.wait("approved:7"))
    assert ended(drain()) == ["deferred"]
    [reason] = [each for each in explain_message(message) if each.code == "blocked"]
    assert reason.sentence.startswith('It waits for the event "approved:7", until ')
    assert reason.facts["event"] == "approved:7"
    assert notify_event("approved:7", {"by": "Ada"})
    assert [each.code for each in explain_message(message) if each.code == "blocked"] == []
    assert ended(drain()) == ["completed"]
    assert found == [{"by": "Ada"}]


@pytest.mark.parametrize("payload", [None, 0, {"a": [1]}])
def test_an_event_that_came_before_is_there_at_once(payload: Any):
    notify_event("early", payload)
    _, found = job(lambda step: step.wait("early"))
    assert ended(drain()) == ["completed"]
    assert found == [payload]


def test_the_first_of_two_events_is_kept_and_the_second_says_so():
    assert notify_event("x", 1)
    assert not notify_event("x", 2)
    _, found = job(lambda step: step.wait("x"))
    drain()
    assert found == [1]


def test_many_wait_for_one_event_and_one_for_many():
    ids = [job(lambda step: step.wait("start"))[0] for _ in range(3)]
    _, found = job(lambda step: [step.wait(name) for name in ("start", "a", "b")])
    drain()
    notify_event("b", "b")
    assert ended(drain()) == []
    notify_event("start", "go")
    assert sorted(ended(drain())) == ["completed"] * 3 + ["deferred"]
    notify_event("a", "a")
    drain()
    assert found[-1] == ["go", "a", "b"]
    assert set(ids) <= set(ArchivedMessage.objects.values_list("id", flat=True))


def test_a_timeout_is_kept_and_a_late_event_does_not_change_it():
    calls = []

    def work(step: Steps) -> Any:
        answer = caught(step, "late", DAY)
        calls.append(answer)
        step.sleep("then", DAY)
        return answer

    with freeze_clock(NOON) as clock:
        _, found = job(work)
        drain()
        clock.tick(DAY)
        drain()
        notify_event("late", 1)
        clock.tick(DAY)
        drain()
    assert calls == found * 2 == ["late", "late"]


def test_a_timeout_that_is_not_caught_fails_the_handler():
    message, _ = job(lambda step: step.wait("never", timedelta(0)))
    with pytest.raises(EventTimeout, match="'never' did not come in time"):
        drain()
    assert DeadLetter.objects.get(id=message).errors[-1]["type"].endswith("EventTimeout")


def test_an_event_after_the_timeout_and_before_the_delivery_counts():
    with freeze_clock(NOON) as clock:
        _, found = job(lambda step: caught(step, "x", DAY))
        drain()
        clock.tick(DAY)
        [delivery] = dequeue()  # a worker has it
        notify_event("x", 1)
        sql("SELECT pgqueue_defer(ARRAY[%s::bigint], ARRAY[%s::uuid])", delivery.id, delivery.token)
        drain()
    assert found == [1]


@pytest.mark.parametrize("ordered", [False, True])
def test_an_event_does_not_end_the_back_off_of_a_message_that_has_gone_on(ordered: bool):
    channel_set(channel="line", ordered=ordered)
    message, found = job(lambda step: step.wait("x"), channel="line")
    drain()
    sql("UPDATE pgqueue_message SET max_attempts = 2")
    reschedule(message)
    retry(dequeue(), errors=[{}], delays=[DAY])
    notify_event("x", 7)
    assert ended(drain()) == []
    sql("UPDATE pgqueue_message SET attempts = 0")
    reschedule(message)
    drain()
    assert found == [7]


def test_a_reschedule_ends_a_pause():
    message, found = job(lambda step: [step.sleep("a", DAY), caught(step, "x", DAY)])
    for _ in range(2):
        drain()
        reschedule(message)
    drain()
    assert found == [[None, "late"]]


def test_a_pause_is_over_for_a_dead_letter_that_is_redriven():
    message, found = job(lambda step: [step("a", lambda: 1), step.sleep("b", DAY), caught(step, "x", DAY)])
    drain()
    discard(message)
    redrive(message)
    drain()
    notify_event("x", 7)
    assert ended(drain()) == ["completed"]
    assert found == [[1, None, 7]]


def test_a_message_that_waits_can_be_cancelled():
    message, _ = job(lambda step: step.wait("x"))
    drain()
    cancel(message)
    assert notify_event("x")
    assert ended(drain()) == []
    assert sql("SELECT count(*) FROM pgqueue_step") == [(0,)]


def test_a_message_of_an_ordered_channel_keeps_its_place():
    channel_set(channel="line", ordered=True)
    order: list[str] = []
    job(lambda step: order.append(step.wait("x")), channel="line")
    handler("next")(lambda delivery: order.append("next"))
    enqueue("next", channel="line")
    drain()
    assert order == []
    notify_event("x", "first")
    drain()
    assert order == ["first", "next"]


def test_a_message_that_is_cancelled_while_it_runs_does_not_pause():
    message, _ = job(lambda step: [cancel(message), step.wait("x")])
    assert ended(drain()) == ["cancelled"]
    assert sql("SELECT count(*) FROM pgqueue_step") == [(0,)]


def test_async_handlers_pause_too():
    @handler("async")
    async def _job(delivery: Delivery[Any]) -> None:
        step = asteps_of(delivery)
        await step.sleep("a", timedelta(0))
        assert await step.wait("x") == {"b": 1}

    enqueue("async")
    assert ended(drain()) == ["deferred", "deferred"]
    assert async_to_sync(anotify_event)("x", {"b": 1})
    assert ended(drain()) == ["completed"]


def test_events_are_pruned_with_the_archive(settings: Any):
    notify_event("x")
    prune()
    assert not notify_event("x")
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(0)}
    prune()
    assert notify_event("x")


def test_an_event_outlives_its_prune_for_those_that_waited(settings: Any):
    _, found = job(lambda step: step.wait("x"))
    drain()
    notify_event("x", 5)
    sql("DELETE FROM pgqueue_event")
    drain()
    assert found == [5]


def test_a_codec_encodes_the_payload_of_an_event(settings: Any):
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": "tests.support.codecs.Toy"}
    notify_event("x", "secret")
    assert sql("SELECT payload ? '$codec' FROM pgqueue_event") == [(True,)]
    _, found = job(lambda step: step.wait("x"))
    drain()
    assert found == ["secret"]


@pytest.mark.parametrize("time", [5, datetime(2031, 1, 1), None])  # noqa: DTZ001  (without a time zone)
def test_a_time_without_a_unit_or_a_zone_is_refused(time: Any):
    step = steps_of(taken())
    for pause in (step.sleep, step.wait):
        with pytest.raises(ValueError, match=r"timedelta|aware datetime"):
            pause("x", time)


@pytest.mark.parametrize("name", ["", "x" * 201, None])
def test_a_name_that_is_none_is_refused(name: Any):
    with pytest.raises(InvalidMessage):
        notify_event(name)


def test_the_sweep_looks_again_where_a_note_was_left():
    _, found = job(lambda step: step.wait("x"))
    drain()
    # As if the notification had not seen the one that waits.
    sql("INSERT INTO pgqueue_event (name, payload) VALUES ('x', '1')")
    sweep()
    assert ended(drain()) == []
    sql("INSERT INTO pgqueue_event_unsure (name) VALUES ('x'), ('x'), ('unknown')")
    sweep()
    drain()
    assert found == [1]
    assert sql("SELECT count(*) FROM pgqueue_event_unsure") == [(0,)]
