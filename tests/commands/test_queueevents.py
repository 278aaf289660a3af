from __future__ import annotations

import json

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set, queue_pause
from django_pgqueue.models import Queue
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="default", queue="mails")


def run(*arguments: object) -> str:
    return output_of("queueevents", *arguments).strip()


def test_events_are_switched_on_and_off() -> None:
    assert run("on", "mails") == "queue mails: events were off, are on."
    assert Queue.objects.get(name="mails").events
    assert run("on", "mails") == "queue mails: events were on, are on."
    answer = {"version": 1, "action": "off", "queue": "mails", "before": "on", "after": "off", "dry_run": False}
    assert json.loads(run("off", "mails", "--format", "json")) == answer
    assert not Queue.objects.get(name="mails").events


def test_a_pause_stays() -> None:
    queue_pause("mails", reason="the provider is down")
    run("on", "mails")
    queue = Queue.objects.get(name="mails")
    assert (queue.events, queue.pause_reason) == (True, "the provider is down")
    assert queue.paused_at is not None


def test_a_dry_run_changes_nothing() -> None:
    assert run("on", "mails", "--dry-run") == "queue mails: events were off, would be on."
    assert not Queue.objects.filter(name="mails").exists()


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_queue_that_is_not_there_is_refused(dry: list[str]) -> None:
    with pytest.raises(CommandError, match="emials"):
        run("on", "emials", *dry)
    assert not Queue.objects.filter(name="emials").exists()
