"""purge, release, drop."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set, dequeue, enqueue, limit_set
from django_pgqueue.management.cli import removing
from django_pgqueue.models import ArchivedMessage, Channel, Message, Schedule, SharedLimit
from tests.support.cases import cases
from tests.support.commands import pgqueue
from tests.support.sessions import Connect

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removing, "BATCH_MESSAGES", 2)
    for name in "abc":
        channel_set(channel=name, queue="mails")
        enqueue("h", channel=name, queue="mails")
    enqueue("h", channel="a", queue="mails", delay=timedelta(hours=1))


@cases(
    ("words", "names", "count"),
    [
        ("purge queue mails", {"queue": "mails"}, 3),
        ("purge channel a --queue mails", {"queue": "mails", "channel": "a"}, 1),
    ],
)
def test_waiting_messages_are_purged_in_batches(words: str, names: dict[str, str], count: int) -> None:
    dequeue(queue="mails")
    assert pgqueue(words, "--dry-run") == f"{count} would be purged"
    assert Message.objects.count() == 4
    answer = {"version": 1, "action": "purge", "dry_run": False, **names, "messages": count}
    assert json.loads(pgqueue(words, "--json")) == answer
    assert ArchivedMessage.objects.filter(outcome="purged").count() == count
    assert pgqueue(words) == "0 purged"


def test_a_channel_is_released() -> None:
    assert pgqueue("release channel a --queue mails --dry-run") == "channel mails/a would be released."
    assert Channel.objects.get(name="a").released_at is None
    assert pgqueue("release channel a --queue mails") == "channel mails/a is released."
    assert Channel.objects.get(name="a").released_at


def test_a_limit_is_dropped() -> None:
    limit_set("stripe")
    assert pgqueue("drop limit stripe --dry-run") == "limit stripe would be dropped."
    assert SharedLimit.objects.exists()
    assert pgqueue("drop limit stripe") == "limit stripe is dropped."
    assert not SharedLimit.objects.exists()


def test_a_queue_is_dropped_in_parts() -> None:
    Schedule.objects.create(name="nightly", handler="h", queue="mails", channel="a", cron="0 4 * * *")
    counts = "4 messages purged, 3 channels released, 1 schedules deleted"
    assert pgqueue("drop queue mails --purge --dry-run") == f"queue mails would be dropped: {counts}"
    assert Message.objects.count() == 4
    assert pgqueue("drop queue mails --purge") == f"queue mails is dropped: {counts}"
    assert not Message.objects.exists()
    assert not Channel.objects.filter(queue="mails", released_at=None).exists()


def test_a_queue_that_holds_messages_is_not_dropped() -> None:
    with pytest.raises(CommandError, match="messages wait"):
        pgqueue("drop queue mails")
    with pytest.raises(CommandError, match="0 leased and 4 waiting"):
        pgqueue("drop queue mails --dry-run")
    dequeue(queue="mails")
    with pytest.raises(CommandError, match="leases"):
        pgqueue("drop queue mails --purge")
    with pytest.raises(CommandError, match="1 leased and 3 waiting"):
        pgqueue("drop queue mails --purge --dry-run")
    assert Channel.objects.filter(queue="mails", released_at=None).count() == 3
    assert Message.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_it_says_when_others_hold_what_is_left(connect: Connect) -> None:
    worker = connect()
    worker.execute("SELECT * FROM pgqueue_dequeue('mails', 1)")
    with pytest.raises(CommandError, match="try again"):
        pgqueue("drop queue mails --purge")
    assert Message.objects.count() == 1
    worker.rollback()
    assert pgqueue("drop queue mails --purge").startswith("queue mails is dropped: 1 messages purged")


@cases("words", ["purge queue", "purge channel", "release channel", "drop queue", "drop limit", "drop schedule"])
@cases("dry", [[], ["--dry-run"]])
def test_a_name_that_does_not_exist_is_refused(words: str, dry: list[str]) -> None:
    thing = words.split()[1]
    with pytest.raises(CommandError, match=rf"There is no {thing} .*nobody\. pgqueue {thing}s lists what there is"):
        pgqueue(words, "nobody", *dry)
