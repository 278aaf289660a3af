"""The archive keeps of a message what the call chooses, else its channel, else its queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import (
    Delivery,
    cancel,
    channel_purge,
    channel_set,
    complete,
    dead_letter,
    defer,
    dequeue,
    discard,
    enqueue,
    pop,
    queue_set,
    redrive,
    retry,
)
from django_pgqueue.models import ArchivedMessage, DeadLetter
from tests.support.cases import cases
from tests.support.messages import places
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db

SECRET = "4111 1111 1111 1111"
AT_ONCE = timedelta(0)


def send(**options: Any) -> int:
    """A message that has a secret in all that it carries."""
    given = {"body": SECRET.encode(), "headers": {"card": SECRET}, "dedupe_key": "k"}
    sent: int = enqueue("h", {"card": SECRET}, **given | options).id
    return sent


def tried() -> Delivery:
    """The delivery of a message that has failed once; its error and its state quote what it carries."""
    send(max_attempts=5)
    error = {"type": "shop.Declined", "message": f"no {SECRET}", "traceback": SECRET, "extra": {"card": SECRET}}
    retry(dequeue(worker="one"), errors=[error], delays=[AT_ONCE], states=[{"card": SECRET}])
    [delivery] = dequeue(worker="two")
    return delivery


def of_archive(message: int) -> str:
    """The whole row, as text."""
    text: str = value("SELECT to_jsonb(a)::text FROM pgqueue_archived_message AS a WHERE a.id = %s", message)
    return text


def test_an_archive_of_outcomes_keeps_nothing_that_the_message_carried() -> None:
    channel_set(channel="default", archive="outcome")
    delivery = tried()
    complete(delivery, results=[{"card": SECRET}])
    kept = ArchivedMessage.objects.get(pk=delivery.id)
    assert SECRET not in of_archive(delivery.id)
    assert (kept.payload, kept.body, kept.headers, kept.state, kept.result) == (None,) * 5
    assert (kept.queue, kept.channel, kept.handler, kept.outcome) == ("default", "default", "h", "completed")
    assert (kept.attempts, kept.worker, kept.dedupe_key, kept.lease_token) == (2, "two", "k", delivery.token)
    assert kept.created_at <= kept.dequeue_at <= kept.leased_at <= kept.archived_at
    [error] = kept.errors
    assert sorted(error) == ["at", "attempt", "leased_at", "type", "worker"]
    assert (error["attempt"], error["type"], error["worker"]) == (1, "shop.Declined", "one")


CHOICES = [
    # queue, channel, call: what is archived
    (None, None, None, "full"),
    ("outcome", None, None, "outcome"),
    ("outcome", "full", None, "full"),
    ("none", "outcome", None, "outcome"),
    ("full", "none", "outcome", "outcome"),
    ("none", "none", "full", "full"),
    ("full", "full", "none", "none"),
]


@cases(("queue", "channel", "call", "archived"), CHOICES)
@cases("verb", ["complete", "complete cancelled", "pop"])
def test_the_call_is_before_the_channel_and_that_before_the_queue(
    verb: str, queue: Any, channel: Any, call: Any, archived: str
) -> None:
    if queue:
        queue_set(archive=queue)
    channel_set(channel="default", archive=channel)
    sent = send()
    if verb == "pop":
        pop(archive=call)
    else:
        complete(dequeue(), archive=call, cancelled=verb == "complete cancelled")
    found = ArchivedMessage.objects.filter(pk=sent).first()
    if archived == "none":
        assert found is None
    else:
        card = {"card": SECRET} if archived == "full" else None
        assert (found.payload, found.headers) == (card, card)


def end_purge() -> None:
    channel_purge(channel="default")


def end_cancel() -> None:
    cancel(value("SELECT id FROM pgqueue_message"), reason="the customer left")


def end_cancelled(how: str) -> None:
    [delivery] = dequeue()
    cancel(delivery.id, reason="the customer left")
    if how == "defer":
        defer(delivery)
    elif how == "retry":
        retry(delivery, errors=[{"message": SECRET}])
    else:
        complete(delivery, cancelled=True)


WAYS = {
    "pop": lambda: pop(),
    "purge": end_purge,
    "cancel": end_cancel,
    "defer": lambda: end_cancelled("defer"),
    "retry": lambda: end_cancelled("retry"),
    "complete": lambda: end_cancelled("complete"),
}


@cases("way", WAYS)
@cases("archive", ["full", "outcome", "none"])
def test_whatever_archives_a_message_obeys(way: str, archive: str) -> None:
    queue_set(archive=archive)
    sent = send()
    WAYS[way]()
    assert places(sent) == ([] if archive == "none" else ["archive"])
    if archive != "none":
        assert (SECRET in of_archive(sent)) is (archive == "full")
        if way not in ("pop", "purge"):
            assert ArchivedMessage.objects.get(pk=sent).result == {"reason": "the customer left"}


def test_the_reason_of_a_cancelled_message_is_kept_and_no_more_of_its_result() -> None:
    sent = send()
    complete(dequeue(), results=[{"reason": "asked to", "card": SECRET}], cancelled=True, archive="outcome")
    assert ArchivedMessage.objects.get(pk=sent).result == {"reason": "asked to"}


def test_messages_of_one_call_go_by_their_own_channels() -> None:
    for name in ("full", "outcome", "none"):
        channel_set(channel=name, archive=name, max_size=5)
    sent = {name: send(channel=name) for name in ("none", "full", "outcome")}
    assert complete(dequeue(limit=3)) == set(sent.values())
    assert {name: places(message) for name, message in sent.items()} == {
        "none": [],
        "full": ["archive"],
        "outcome": ["archive"],
    }
    assert SECRET in of_archive(sent["full"])
    assert SECRET not in of_archive(sent["outcome"])
    assert sql("SELECT messages FROM pgqueue_departure") == [(1,)] * 3, "a place is free in each"


@cases("errors", ['[1, "x", {"type": {"a": 1}}, null]', "{}", "7", None, "[]"])
def test_errors_of_any_shape_are_archived(errors: str | None) -> None:
    sent = send()
    sql("UPDATE pgqueue_message SET errors = %s", errors)
    complete(dequeue(), archive="outcome")
    assert places(sent) == ["archive"]


@pytest.mark.parametrize("archive", ["outcome", "none"])
def test_a_dead_letter_is_kept_whole_and_can_be_redriven(archive: str) -> None:
    channel_set(channel="default", archive=archive)
    sent = send()
    dead_letter(dequeue(), reason="refused")
    letter = DeadLetter.objects.get(pk=sent)
    assert (letter.payload, bytes(letter.body), letter.headers) == ({"card": SECRET}, SECRET.encode(), {"card": SECRET})
    [new] = redrive([sent]).values()
    complete(dequeue())
    assert places(new) == ([] if archive == "none" else ["archive"])
    discarded = send()
    discard([discarded])
    assert places(discarded) == ["dead letters"]
