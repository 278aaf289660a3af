"""A wrong type is refused by each verb before anything is sent, by the name of the argument."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import transaction

from django_pgqueue import (
    NewMessage,
    cancel,
    channel_erase,
    channel_pause,
    channel_purge,
    channel_release,
    channel_resume,
    channel_set,
    complete,
    dead_letter,
    defer,
    delete_dead,
    dequeue,
    discard,
    edit,
    enqueue,
    enqueue_many,
    explain_channel,
    explain_message,
    heartbeat,
    lease_release,
    metrics,
    peek,
    pop,
    queue_drop,
    queue_pause,
    queue_purge,
    queue_resume,
    redrive,
    reschedule,
    retry,
    schedule_run,
    sweep,
)
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Message
from tests.support.cases import cases
from tests.support.messages import lease_messages, live
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db

TOO_LONG = timedelta(days=365_001)
NO_TEXTS: list[Any] = [5, None, b"b", ["a"], True]
NO_NUMBERS: list[Any] = [True, "3", 1.5, None, [1]]
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001  (that is what is wrong with it)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
NO_TIMES: list[Any] = ["2030-01-01", 5, NAIVE, FIRST, LAST]
FAR_EAST, FAR_WEST = timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))
NO_DURATIONS: list[Any] = [5, "5", 1.5, True, TOO_LONG, timedelta.max, timedelta.min, datetime.now(UTC)]
NEW: dict[str, list[Any]] = {
    "handler": NO_TEXTS,
    "channel": NO_TEXTS,
    "queue": [5, b"b", True, ""],
    "priority": [*NO_NUMBERS, 32_768, -32_768],
    "max_attempts": [True, "3", 1.5, 0, -1, 2**31],
    "dequeue_at": NO_TIMES,
    "delay": NO_DURATIONS,
    "dedupe_key": [5, b"b", True],
    "headers": [[1], "text", 5],
    "body": ["text", 5],
    "backoff": [5, "5", TOO_LONG, -timedelta(1)],
}


@cases("name", NEW)
def test_a_message_with_a_wrong_type_is_refused(name: str) -> None:
    for wrong in NEW[name]:
        given = {"handler": "h", name: wrong}
        for attempt in (lambda given=given: enqueue(**given), lambda given=given: enqueue_many([NewMessage(**given)])):
            with refused(InvalidMessage, name if name != "headers" else "headers are") as found:
                attempt()
            assert "Error" not in str(found.value)
    assert not Message.objects.exists()


@pytest.mark.parametrize("zone", [FAR_EAST, UTC, FAR_WEST], ids=["far east", "UTC", "far west"])
def test_the_years_2_to_9998_are_taken_in_each_time_zone(zone: timezone) -> None:
    first, last = datetime(2, 1, 2, 12, tzinfo=zone), datetime(9998, 12, 30, 12, tzinfo=zone)
    for moment in (first, last):
        assert enqueue("h", dequeue_at=moment).created
    assert set(Message.objects.values_list("dequeue_at", flat=True)) == {first, last}
    for moment in (datetime(1, 12, 30, tzinfo=zone), datetime(9999, 1, 2, tzinfo=zone)):
        with refused(InvalidMessage, "dequeue_at is outside of the years 2 to 9998"):
            enqueue("h", dequeue_at=moment)


VERBS: list[tuple[Callable[[Any], Any], str, list[Any]]] = [
    (lambda wrong: dequeue(wrong), "queue", NO_TEXTS),
    (lambda wrong: dequeue(limit=wrong), "limit", NO_NUMBERS),
    (lambda wrong: dequeue(lease=wrong), "lease", NO_DURATIONS),
    (lambda wrong: dequeue(wait=wrong), "wait", ["1", True, None]),
    (lambda wrong: dequeue(worker=wrong), "worker", [5, b"b"]),
    (lambda wrong: pop(wrong), "queue", NO_TEXTS),
    (lambda wrong: pop(limit=wrong), "limit", NO_NUMBERS),
    (lambda wrong: peek(wrong), "queue", NO_TEXTS),
    (lambda wrong: peek(limit=wrong), "limit", NO_NUMBERS),
    (lambda wrong: peek(channel=wrong), "channel", [5, b"b"]),
    (lambda wrong: channel_purge(channel=wrong), "channel", NO_TEXTS),
    (lambda wrong: channel_purge(channel="default", limit=wrong), "limit", NO_NUMBERS),
    (lambda wrong: channel_set(channel=wrong), "channel", NO_TEXTS),
    (lambda wrong: channel_set(channel="c", queue=wrong), "queue", NO_TEXTS),
    (lambda wrong: channel_set(channel="c", release_interval=wrong), "release_interval", NO_DURATIONS),
    (lambda wrong: channel_release(channel=wrong), "channel", NO_TEXTS),
    (lambda wrong: channel_resume(channel=wrong), "channel", NO_TEXTS),
    (lambda wrong: channel_erase(channel=wrong, queue="default"), "channel", NO_TEXTS),
    (lambda wrong: channel_erase(channel="c", queue=wrong), "queue", NO_TEXTS),
    (lambda wrong: channel_pause(channel=wrong), "channel", NO_TEXTS),
    (lambda wrong: channel_pause(channel="default", until=wrong), "until", NO_TIMES),
    (lambda wrong: channel_pause(channel="default", reason=wrong), "reason", NO_TEXTS),
    (lambda wrong: queue_pause(wrong), "queue", NO_TEXTS),
    (lambda wrong: queue_pause(until=wrong), "until", NO_TIMES),
    (lambda wrong: queue_resume(wrong), "queue", NO_TEXTS),
    (lambda wrong: queue_purge(queue=wrong), "queue", NO_TEXTS),
    (lambda wrong: queue_purge(queue="default", limit=wrong), "limit", NO_NUMBERS),
    (lambda wrong: queue_drop(queue=wrong), "queue", NO_TEXTS),
    (lambda wrong: queue_drop(queue="default", limit=wrong), "limit", NO_NUMBERS),
    (lambda wrong: cancel(wrong), "id", NO_NUMBERS[1:4]),
    (lambda wrong: cancel([wrong]), "id", NO_NUMBERS),
    (lambda wrong: cancel(1, reason=wrong), "reason", NO_TEXTS),
    (lambda wrong: discard([wrong]), "id", NO_NUMBERS),
    (lambda wrong: delete_dead([wrong]), "id", NO_NUMBERS),
    (lambda wrong: lease_release([wrong]), "id", NO_NUMBERS),
    (lambda wrong: reschedule([wrong]), "id", NO_NUMBERS),
    (lambda wrong: reschedule(1, at=wrong), "at", NO_TIMES),
    (lambda wrong: redrive([wrong]), "id", NO_NUMBERS),
    (lambda wrong: redrive([1], channel=wrong), "channel", [5, b"b"]),
    (lambda wrong: redrive([1], times=[wrong]), "times", NO_TIMES),
    (lambda wrong: edit(wrong, {}), "id", NO_NUMBERS),
    (lambda wrong: explain_message(wrong), "id", NO_NUMBERS),
    (lambda wrong: explain_channel(channel=wrong), "channel", NO_TEXTS),
    (lambda wrong: metrics(wrong), "queue", [5, b"b"]),
    (lambda wrong: sweep(wrong), "limit", NO_NUMBERS),
    (lambda wrong: schedule_run(wrong), "name", NO_TEXTS),
]


@cases(("verb", "name", "values"), VERBS)
def test_a_verb_refuses_a_wrong_type(verb: Callable[[Any], Any], name: str, values: list[Any]) -> None:
    for wrong in values:
        with refused(InvalidMessage, name):
            verb(wrong)


def test_a_settling_verb_refuses_a_wrong_type_and_the_lease_goes_on() -> None:
    enqueue("h")
    [delivery] = dequeue()
    for attempt, name in (
        *((lambda wrong=wrong: defer(delivery, until=wrong), "until") for wrong in NO_TIMES),
        *((lambda wrong=wrong: defer(delivery, delay=wrong), "delay") for wrong in NO_DURATIONS),
        *((lambda wrong=wrong: retry(delivery, errors=[{}], delays=[wrong]), "delay") for wrong in NO_DURATIONS),
        *((lambda wrong=wrong: retry(delivery, errors=[{}], reason=wrong), "reason") for wrong in NO_TEXTS),
        *((lambda wrong=wrong: dead_letter(delivery, reason=wrong), "reason") for wrong in NO_TEXTS),
        *((lambda wrong=wrong: heartbeat(delivery, lease=wrong), "lease") for wrong in NO_DURATIONS),
    ):
        with refused(InvalidMessage, name):
            attempt()
    assert complete(delivery) == {delivery.id}


NONSENSE: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (defer, {"until": datetime(2100, 1, 1, tzinfo=UTC), "delay": timedelta(1)}), (defer, {"state": {1}}),
    (defer, {"state": "a\0b"}), (retry, {"errors": [{1}]}), (retry, {"errors": [{"message": "a\0b"}]}),
    (retry, {"errors": [{}], "reason": "a\0b"}), (retry, {"errors": {"type": "E"}}), (retry, {"errors": []}),
    (retry, {"errors": [{}, {}]}), (retry, {"errors": [{}], "delays": [timedelta(0)] * 2}),
    (dead_letter, {"reason": ""}), (dead_letter, {"reason": "x" * 201}), (dead_letter, {"reason": "a\0b"}),
    (dead_letter, {"reason": "\ud800"}), (dead_letter, {"reason": "x", "details": {1}}),
    (dead_letter, {"reason": "x", "details": "\0"}),
]  # fmt: skip


@cases(("verb", "given"), NONSENSE)
def test_a_settling_verb_refuses_nonsense_and_the_lease_stays(verb: Callable[..., Any], given: dict[str, Any]) -> None:
    [delivery] = lease_messages()
    with refused(InvalidMessage), transaction.atomic():
        verb(delivery, **given)
    assert live(delivery.id, "lease_token", "errors") == (delivery.token, None)


BAD_TEXTS = ["a\0b", "\ud800"]


@pytest.mark.parametrize("name", ["channel", "queue", "dedupe_key"])
def test_a_text_that_cannot_be_stored_is_a_refusal_of_its_message_alone(name: str) -> None:
    for wrong in BAD_TEXTS:
        assert enqueue("h", on_refused="return", **{name: wrong}).outcome == "invalid"
        good, bad = enqueue_many(
            [NewMessage(handler="h"), NewMessage(handler="h", **{name: wrong})], on_refused="return"
        )
        assert (good.outcome, bad.outcome) == ("created", "invalid")
        assert bad.reason.startswith("message 2 of 2: ")
        assert wrong not in bad.reason


def test_the_message_that_is_refused_is_named() -> None:
    with refused(InvalidMessage, "message 3 of 3: max_attempts is not an integer"):
        enqueue_many([NewMessage(handler="h")] * 2 + [NewMessage(handler="h", max_attempts="3")])  # type: ignore[arg-type]
    with refused(InvalidMessage, "a message is not a NewMessage but str"):
        enqueue_many(["h"])  # type: ignore[list-item]
