from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError
from django.utils import timezone

from django_pgqueue import channel_set, dequeue, enqueue, limit_set
from django_pgqueue.models import Channel, Queue, SharedLimit, Worker
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="default")


def run(*arguments: object) -> str:
    return output_of("queuepause", *arguments).strip()


def test_a_queue_is_paused_for_a_time_and_resumed() -> None:
    enqueue("h")
    assert run("--queue", "default", "--reason", "the database moves", "--for", 3600) == "queue default is paused."
    queue = Queue.objects.get()
    assert queue.pause_reason == "the database moves"
    assert abs(queue.paused_until - timezone.now() - timedelta(hours=1)) < timedelta(minutes=1)
    assert dequeue() == []
    assert run("--queue", "default", "--resume") == "queue default is resumed."
    assert len(dequeue()) == 1


def test_a_channel_is_paused_and_resumed() -> None:
    channel_set(channel="acme", queue="mails")
    assert run("--channel", "acme", "--queue", "mails", "--reason", "flood") == "channel mails/acme is paused."
    assert Channel.objects.get(name="acme").pause_reason == "flood"
    assert Channel.objects.get(name="default").paused_at is None
    run("--channel", "acme", "--queue", "mails", "--resume")
    assert Channel.objects.get(name="acme").paused_at is None


def test_a_worker_is_paused_and_resumed() -> None:
    Worker.objects.create(name="w", hostname="h", pid=1, queues=[], concurrency=1, version="1")
    assert run("--worker", "w", "--reason", "looking at it") == "worker w is paused."
    assert Worker.objects.get().pause_reason == "looking at it"
    run("--worker", "w", "--resume")
    assert Worker.objects.get().paused_at is None


def test_a_handler_is_paused_and_resumed() -> None:
    enqueue("h")
    other = enqueue("other")
    assert run("--handler", "h", "--reason", "down", "--dry-run") == "handler h would be paused."
    assert run("--handler", "h", "--reason", "down", "--for", 60) == "handler h is paused."
    assert SharedLimit.objects.get().pause_reason == "down"
    assert [delivery.id for delivery in dequeue(limit=5)] == [other.id]
    assert run("--handler", "h", "--resume") == "handler h is resumed."
    assert len(dequeue(limit=5)) == 1


def test_a_limit_is_paused_and_resumed() -> None:
    limit_set("stripe")
    enqueue("h", limits=["stripe"])
    assert run("--limit", "stripe", "--reason", "down") == "limit stripe is paused."
    assert dequeue() == []
    assert run("--limit", "stripe", "--resume") == "limit stripe is resumed."
    assert len(dequeue()) == 1


def test_a_resume_of_what_is_not_paused_says_so() -> None:
    Worker.objects.create(name="w", hostname="h", pid=1, queues=[], concurrency=1, version="1")
    limit_set("stripe")
    for what, name in (
        ("queue", "default"), ("channel", "default"), ("limit", "stripe"), ("worker", "w"), ("handler", "mail.sned")
    ):  # fmt: skip
        shown = "default/default" if what == "channel" else name
        assert run(f"--{what}", name, "--resume") == f"{what} {shown} was not paused."
    run("--handler", "mail.send")
    answer = json.loads(run("--handler", "mail.send", "--resume", "--format", "json"))
    assert answer == {
        "version": 1, "action": "resume", "handler": "mail.send", "dry_run": False, "was_paused": True
    }  # fmt: skip


def test_a_pause_of_a_handler_that_nothing_has_asks_whether_the_name_is_right() -> None:
    Worker.objects.create(name="w", hostname="h", pid=1, queues=[], concurrency=1, version="1", handlers=["mail.send"])
    warned = StringIO()
    assert output_of("queuepause", "--handler", "mail.send", stderr=warned) == "handler mail.send is paused.\n"
    assert warned.getvalue() == ""
    assert output_of("queuepause", "--handler", "mail.sned", stderr=warned) == "handler mail.sned is paused.\n"
    assert warned.getvalue() == "No installed app and no worker has a handler 'mail.sned': is the name right?\n"


def test_a_dry_run_changes_nothing() -> None:
    answer = {"version": 1, "action": "pause", "queue": "default", "channel": "default", "dry_run": True}
    assert json.loads(run("--channel", "default", "--dry-run", "--format", "json")) == answer
    run("--queue", "default")
    assert run("--queue", "default", "--resume", "--dry-run") == "queue default would be resumed."
    assert Queue.objects.get().paused_at is not None
    assert Channel.objects.get().paused_at is None


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    "what", [["--queue", "emials"], ["--channel", "nobody"], ["--worker", "nobody"], ["--limit", "nobody"]]
)
def test_a_name_that_does_not_exist_is_refused(what: list[str], dry: list[str]) -> None:
    with pytest.raises(CommandError, match=what[1]):
        run(*what, *dry)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Name what to pause or resume"),
        (["--worker", "w", "--queue", "q"], "cannot be combined with"),
        (["--handler", "h", "--limit", "q"], "cannot be combined with"),
        (["--limit", "q", "--channel", "c"], "cannot be combined with"),
        (["--worker", "w", "--for", "5"], "not for workers"),
        (["--queue", "default", "--resume", "--reason", "x"], "cannot be combined with"),
        (["--queue", "default", "--for", "0"], "not between"),
    ],
)
def test_contradictory_arguments_are_refused(arguments: list[str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        run(*arguments)
