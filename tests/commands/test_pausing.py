from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError
from django.utils import timezone

from django_pgqueue import Breaker, breaker_set, channel_set, dequeue, enqueue, limit_set
from django_pgqueue.models import Channel, Queue, SharedLimit, Worker
from tests.support.cases import cases
from tests.support.commands import pgqueue

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="default")


def pause(thing: str, *arguments: object) -> str:
    return pgqueue(f"pause {thing}", *arguments)


def resume(thing: str, *arguments: object) -> str:
    return pgqueue(f"resume {thing}", *arguments)


@cases(
    ("thing", "arguments", "named"),
    [
        ("queue", ["default"], "default"),
        ("channel", ["acme", "--queue", "mails"], "mails/acme"),
        ("worker", ["w"], "w"),
        ("handler", ["h"], "h"),
        ("limit", ["stripe"], "stripe"),
    ],
)
def test_a_thing_is_paused_with_a_reason_and_resumed(thing: str, arguments: list[str], named: str) -> None:
    channel_set(channel="acme", queue="mails")
    limit_set("stripe")
    Worker.objects.create(name="w", hostname="h", pid=1, queues=[], concurrency=1, version="1")
    model = {"queue": Queue, "channel": Channel, "worker": Worker}.get(thing, SharedLimit)
    until = [] if thing == "worker" else ["--for", "1h"]

    assert pause(thing, *arguments, "--dry-run") == f"{thing} {named} would be paused."
    assert not model.objects.exclude(paused_at=None).exists()
    assert pause(thing, *arguments, "--reason", "down", *until) == f"{thing} {named} is paused."
    paused = model.objects.exclude(paused_at=None).get()
    assert (paused.name, paused.pause_reason) == ("handler h" if thing == "handler" else arguments[0], "down")
    if until:
        assert abs(paused.paused_until - timezone.now() - timedelta(hours=1)) < timedelta(minutes=1)

    assert resume(thing, *arguments) == f"{thing} {named} is resumed."
    assert not model.objects.exclude(paused_at=None).exists()


def test_nothing_of_a_paused_handler_is_delivered() -> None:
    enqueue("h")
    other = enqueue("other")
    pause("handler", "h")
    assert [delivery.id for delivery in dequeue(limit=5)] == [other.id]
    resume("handler", "h")
    assert len(dequeue(limit=5)) == 1


def test_a_resume_of_what_is_not_paused_says_so() -> None:
    Worker.objects.create(name="w", hostname="h", pid=1, queues=[], concurrency=1, version="1")
    limit_set("stripe")
    for what, name in (
        ("queue", "default"), ("channel", "default"), ("limit", "stripe"), ("worker", "w"), ("handler", "mail.sned")
    ):  # fmt: skip
        shown = "default/default" if what == "channel" else name
        assert resume(what, name) == f"{what} {shown} was not paused."
    pause("handler", "mail.send")
    answer = json.loads(resume("handler", "mail.send", "--json"))
    assert answer == {
        "version": 1, "action": "resume", "handler": "mail.send", "dry_run": False, "was_paused": True
    }  # fmt: skip


def test_a_pause_of_a_handler_that_nothing_has_asks_whether_the_name_is_right() -> None:
    Worker.objects.create(name="w", hostname="h", pid=1, queues=[], concurrency=1, version="1", handlers=["mail.send"])
    warned = StringIO()
    assert pgqueue("pause handler", "mail.send", stderr=warned) == "handler mail.send is paused."
    assert warned.getvalue() == ""
    assert pgqueue("pause handler", "mail.sned", stderr=warned) == "handler mail.sned is paused."
    assert warned.getvalue() == "No installed app and no worker has a handler 'mail.sned': is the name right?\n"


def test_a_dry_run_changes_nothing() -> None:
    answer = {"version": 1, "action": "pause", "queue": "default", "channel": "default", "dry_run": True}
    assert json.loads(pause("channel", "default", "--dry-run", "--json")) == answer
    pause("queue", "default")
    assert resume("queue", "default", "--dry-run") == "queue default would be resumed."
    assert Queue.objects.get().paused_at is not None
    assert Channel.objects.get().paused_at is None


@cases("dry", [[], ["--dry-run"]])
@cases(("thing", "name"), [("queue", "emials"), ("channel", "none"), ("worker", "x"), ("limit", "y")])
def test_a_name_that_does_not_exist_is_refused_and_the_list_is_named(thing: str, name: str, dry: list[str]) -> None:
    for act in (pause, resume):
        with pytest.raises(CommandError, match=rf"There is no {thing} .*{name}\. pgqueue {thing}s lists what there is"):
            act(thing, name, *dry)


def listed() -> list[list[str]]:
    """The rows of the table of breakers."""
    return [line.split() for line in pgqueue("breakers").splitlines()[1:]]


def test_a_breaker_is_listed_opened_and_closed() -> None:
    assert pgqueue("breakers") == "No breakers."
    breaker_set("mail", Breaker(pause=timedelta(hours=1)))
    assert listed() == [["mail", "-", "-", "handler", "closed", "-", "0", "0"]]
    enqueue("mail")

    assert pgqueue("open breaker", "mail") == "The breaker of mail is open."
    assert dequeue() == []
    [row] = listed()
    assert (row[4], row[-2:]) == ("open", ["1", "1"])
    assert pgqueue("close breaker", "mail") == "The breaker of mail is closed."

    assert len(dequeue()) == 1


def test_one_of_a_channel_is_listed_while_it_is_open() -> None:
    breaker_set("mail", Breaker(per="channel"))
    pgqueue("open breaker", "mail", "--channel", "default", "--for", "3600")

    [of_channel, of_handler] = json.loads(pgqueue("breakers", "--json"))["breakers"]

    assert (of_channel["channel"], of_channel["state"]) == ("default", "open")
    assert (of_handler["channel"], of_handler["openings"]) == (None, 1)
    assert [row[:5] for row in listed()] == [
        ["mail", "default", "default", "channel", "open"], ["mail", "-", "-", "channel", "closed"],
    ]  # fmt: skip
    assert json.loads(pgqueue("breakers", "--channel", "default", "--json"))["breakers"] == [of_channel]
    pgqueue("close breaker", "mail", "--channel", "default")
    assert [row[2] for row in listed()] == ["-"]
