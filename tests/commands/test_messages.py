from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_pgqueue import channel_set, complete, dequeue, enqueue
from django_pgqueue.management.cli import messages
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.support.cases import cases
from tests.support.commands import pgqueue

pytestmark = pytest.mark.django_db
LATER = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _channels() -> None:
    channel_set(channel="default")
    channel_set(channel="acme", queue="mails")


def run(action: str, *arguments: object) -> str:
    return pgqueue(f"{action} message", *arguments)


def test_messages_are_retried_now_by_a_filter() -> None:
    mine = [enqueue("mail.send", queue="mails", channel="acme", delay=LATER).id for _ in range(3)]
    enqueue("mail.send", delay=LATER)
    assert run("retry", "--queue", "mails", "--dry-run") == "3 match"
    assert dequeue("mails") == []
    assert run("retry", "--queue", "mails") == "3 rescheduled"
    assert [delivery.id for delivery in dequeue("mails", limit=5)] == mine
    assert dequeue() == []


def test_a_time_is_a_moment_or_a_delay() -> None:
    sent = enqueue("h")
    assert run("reschedule", sent.id, "--delay", "1h") == "1 rescheduled"
    assert abs(Message.objects.get().dequeue_at - timezone.now() - LATER) < timedelta(minutes=1)
    run("reschedule", sent.id, "--at", "2100-01-01T00:00+02:00")
    assert Message.objects.get().dequeue_at.isoformat() == "2099-12-31T22:00:00+00:00"


def test_messages_are_cancelled_with_a_reason() -> None:
    sent = enqueue("h")
    assert run("cancel", "--handler", "h", "--reason", "sent twice") == "1 cancelled"
    assert ArchivedMessage.objects.get(pk=sent.id).result == {"reason": "sent twice"}


def test_messages_are_discarded() -> None:
    sent = enqueue("h")
    assert run("discard", sent.id, "--reason", "poison") == "1 discarded"
    assert DeadLetter.objects.get().details == {"message": "poison"}


def test_the_leases_of_a_worker_are_released() -> None:
    for _ in range(3):
        enqueue("h")
    dequeue(limit=2, worker="gone")
    dequeue(worker="alive")
    assert run("release", "--worker", "gone", "--dry-run") == "2 match"
    assert run("release", "--worker", "gone") == "2 released"
    assert len(dequeue(limit=5)) == 2


def test_a_payload_is_replaced() -> None:
    sent = enqueue("h", 1)
    assert run("edit", sent.id, "--payload", "0", "--dry-run") == "1 match"
    assert run("edit", sent.id, "--payload", '{"n": 2}') == "1 edited"
    assert Message.objects.get().payload == {"n": 2}


def test_the_answer_may_be_json() -> None:
    sent = enqueue("h", delay=LATER)
    answer = {"version": 1, "action": "retry", "dry_run": True, "matching": 1}
    assert json.loads(run("retry", "--all", "--json", "--dry-run")) == answer
    answer = {"version": 1, "action": "retry", "dry_run": False, "outcomes": {"rescheduled": 1}}
    assert json.loads(run("retry", sent.id, "--json")) == answer


def test_messages_that_are_left_alone_are_counted_and_make_an_error() -> None:
    sent, held = enqueue("h", priority=-1, delay=LATER), enqueue("h")
    dequeue()
    out = StringIO()
    with pytest.raises(CommandError, match="Not all of them"):
        call_command("pgqueue", "retry", "message", sent.id, held.id, 10**15, stdout=out)
    assert out.getvalue() == "1 leased, 1 not_found, 1 rescheduled\n"


def test_batches_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "BATCH_MESSAGES", 2)
    ids = [enqueue("h").id for _ in range(7)]
    assert run("cancel", "--all", "--limit", 3) == "3 cancelled"
    assert sorted(Message.objects.values_list("id", flat=True)) == ids[3:]
    assert run("cancel", "--status", "ready") == "4 cancelled"
    assert run("cancel", "--status", "ready") == "nothing matches"


@cases(
    ("arguments", "complaint"),
    [
        (["cancel"], "Choose the messages"),
        (["cancel", "5", "--all"], "--all without them"),
        (["reschedule", "5"], "one of the arguments --at --delay is required"),
        (["reschedule", "5", "--at", "2030-01-01T00:00"], "not a time with an offset"),
        (["reschedule", "5", "--at", "soon"], "not a time with an offset"),
        (["edit", "5"], "--payload"),
        (["edit", "5", "6", "--payload", "1"], "unrecognized arguments: 6"),
        (["edit", "5", "--payload", "{"], "not JSON"),
        (["cancel", "0"], "at least 1"),
        (["cancel", "--all", "--database", "nowhere"], "no database"),
    ],
)
def test_contradictory_arguments_are_refused_and_change_nothing(arguments: list[str], complaint: str) -> None:
    sent = enqueue("h")
    with pytest.raises(CommandError, match=complaint):
        run(*arguments)
    complete(dequeue())
    assert ArchivedMessage.objects.get(pk=sent.id).outcome == "completed"
