"""queuepurge and queuedrop."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set, dequeue, enqueue
from django_pgqueue.management.commands import queuedrop, queuepurge
from django_pgqueue.models import ArchivedMessage, Channel, Message, Schedule
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    return output_of(*arguments).strip()


@pytest.fixture(autouse=True)
def _queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queuepurge, "BATCH_MESSAGES", 2)
    monkeypatch.setattr(queuedrop, "BATCH_MESSAGES", 2)
    for name in "abc":
        channel_set(channel=name, queue="mails")
        enqueue("h", channel=name, queue="mails")
    enqueue("h", channel="a", queue="mails", delay=timedelta(hours=1))


def test_waiting_messages_of_all_channels_are_purged() -> None:
    dequeue(queue="mails")
    assert run("queuepurge", "mails", "--dry-run") == "3 would be purged"
    assert Message.objects.count() == 4
    answer = {"version": 1, "action": "purge", "queue": "mails", "dry_run": False, "messages": 3}
    assert json.loads(run("queuepurge", "mails", "--format", "json")) == answer
    assert ArchivedMessage.objects.filter(outcome="purged").count() == 3
    assert run("queuepurge", "mails") == "0 purged"


def test_a_queue_is_dropped_in_parts() -> None:
    Schedule.objects.create(name="nightly", handler="h", queue="mails", channel="a", cron="0 4 * * *")
    counts = "4 messages purged, 3 channels released, 1 schedules deleted"
    assert run("queuedrop", "mails", "--purge", "--dry-run") == f"queue mails would be dropped: {counts}"
    assert Message.objects.count() == 4
    assert run("queuedrop", "mails", "--purge") == f"queue mails is dropped: {counts}"
    assert not Message.objects.exists()
    assert not Channel.objects.filter(queue="mails", released_at=None).exists()


def test_a_queue_that_holds_messages_is_not_dropped() -> None:
    with pytest.raises(CommandError, match="messages wait"):
        run("queuedrop", "mails")
    with pytest.raises(CommandError, match="0 leased and 4 waiting"):
        run("queuedrop", "mails", "--dry-run")
    dequeue(queue="mails")
    with pytest.raises(CommandError, match="leases"):
        run("queuedrop", "mails", "--purge")
    with pytest.raises(CommandError, match="1 leased and 3 waiting"):
        run("queuedrop", "mails", "--purge", "--dry-run")
    assert Channel.objects.filter(queue="mails", released_at=None).count() == 3
    assert Message.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_it_says_when_others_hold_what_is_left(connect) -> None:
    worker = connect()
    worker.execute("SELECT * FROM pgqueue_dequeue('mails', 1)")
    with pytest.raises(CommandError, match="try again"):
        run("queuedrop", "mails", "--purge")
    assert Message.objects.count() == 1
    worker.rollback()
    assert run("queuedrop", "mails", "--purge").startswith("queue mails is dropped: 1 messages purged")


@pytest.mark.parametrize("command", ["queuepurge", "queuedrop"])
def test_an_unknown_queue_is_refused(command: str) -> None:
    with pytest.raises(CommandError, match="no queue 'nobody'"):
        run(command, "nobody")
