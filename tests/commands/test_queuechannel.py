from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set, dequeue, enqueue
from django_pgqueue.management.commands import queuechannel
from django_pgqueue.models import ArchivedMessage, Channel, Message
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="acme", max_size=50)


def run(*arguments: object) -> str:
    return output_of("queuechannel", *arguments).strip()


def test_limits_are_set_and_lifted_and_hold_at_once() -> None:
    for _ in range(3):
        enqueue("h", channel="acme")
    text = run("set", "acme", "--max-concurrency", 2, "--max-size", "none", "--release-burst", 5)
    assert text == "default/acme: max_concurrency None → 2, max_size 50 → None, release_burst 1 → 5"
    assert len(dequeue(limit=5)) == 2
    run("set", "acme", "--max-concurrency", "none", "--release-interval", "0.5", "--full-policy", "drop", "--weight", 3)
    channel = Channel.objects.get(name="acme")
    assert (channel.max_concurrency, channel.release_interval) == (None, timedelta(seconds=0.5))
    assert (channel.full_policy, channel.weight, channel.max_size) == ("drop", 3, None)


def test_a_rate_is_set_and_lifted() -> None:
    text = run("set", "acme", "--rate", "5/s burst 20")
    assert text == "default/acme: release_interval None → 0:00:00.200000, release_burst 1 → 20"
    run("set", "acme", "--rate", "none")
    channel = Channel.objects.get(name="acme")
    assert (channel.release_interval, channel.release_burst) == (None, 1)
    with pytest.raises(CommandError, match="which is no rate"):
        run("set", "acme", "--rate", "often")
    with pytest.raises(CommandError, match="give --rate, or those two"):
        run("set", "acme", "--rate", "5/s", "--release-burst", 3)


def test_a_channel_that_is_not_there_is_made() -> None:
    assert run("set", "new", "--queue", "mails", "--weight", 2) == "mails/new: weight - → 2"
    assert Channel.objects.get(queue="mails", name="new").weight == 2


def test_waiting_messages_are_purged_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queuechannel, "BATCH_MESSAGES", 2)
    for _ in range(4):
        enqueue("h", channel="acme")
    enqueue("h", channel="acme", delay=timedelta(hours=1))
    dequeue()
    assert run("purge", "acme", "--dry-run") == "4 would be purged"
    assert Message.objects.count() == 5
    answer = {"version": 1, "action": "purge", "queue": "default", "channel": "acme", "dry_run": False, "messages": 4}
    assert json.loads(run("purge", "acme", "--format", "json")) == answer
    assert ArchivedMessage.objects.filter(outcome="purged").count() == 4
    assert run("purge", "acme") == "0 purged"


def test_a_channel_is_released() -> None:
    assert run("release", "acme", "--dry-run") == "default/acme would be released."
    assert Channel.objects.get(name="acme").released_at is None
    assert run("release", "acme") == "default/acme is released."
    assert Channel.objects.get(name="acme").released_at


def test_a_dry_run_says_what_would_change() -> None:
    answer = json.loads(run("set", "acme", "--max-size", 10, "--dry-run", "--format", "json"))
    assert (answer["before"], answer["after"], answer["dry_run"]) == ({"max_size": 50}, {"max_size": 10}, True)
    assert Channel.objects.get(name="acme").max_size == 50


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["set", "acme"], "Name at least one limit"),
        (["purge", "acme", "--weight", "2"], "takes no limits"),
        (["purge", "nobody"], "nobody"),
        (["release", "nobody", "--dry-run"], "nobody"),
        (["set", "acme", "--weight", "1001"], "weight"),
        (["set", "acme", "--max-size", "0"], "at least 1"),
    ],
)
def test_invalid_arguments_are_refused(arguments: list[str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        run(*arguments)


def test_the_archive_setting_is_set_and_left_to_the_queue() -> None:
    assert run("set", "acme", "--archive", "none") == "default/acme: archive None → none"
    assert Channel.objects.get(name="acme").archive == "none"
    assert run("set", "acme", "--archive", "queue") == "default/acme: archive none → None"
    assert Channel.objects.get(name="acme").archive is None
    with pytest.raises(CommandError, match="invalid choice"):
        run("set", "acme", "--archive", "some")


def test_the_order_is_set_and_ended() -> None:
    text = run("set", "acme", "--ordered", "--on-dead", "pause")
    assert text == "default/acme: ordered False → True, on_dead continue → pause"
    channel = Channel.objects.get(name="acme")
    assert (channel.ordered, channel.on_dead, channel.max_concurrency) == (True, "pause", 1)
    run("set", "acme", "--no-ordered", "--max-concurrency", "none")
    channel.refresh_from_db()
    assert (channel.ordered, channel.max_concurrency) == (False, None)
