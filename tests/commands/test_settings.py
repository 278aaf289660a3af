"""set queue, set channel and set limit."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set, dequeue, enqueue, queue_pause
from django_pgqueue.models import Channel, Queue, SharedLimit
from tests.support.cases import cases
from tests.support.commands import pgqueue

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channels() -> None:
    channel_set(channel="default")
    channel_set(channel="acme", max_size=50)


def set_queue(*arguments: object) -> str:
    return pgqueue("set queue default", *arguments)


def set_channel(*arguments: object) -> str:
    return pgqueue("set channel acme", *arguments)


def set_limit(*arguments: object) -> str:
    return pgqueue("set limit stripe", *arguments)


def test_a_queue_says_what_was_and_what_is() -> None:
    assert set_queue("--archive", "outcome") == "queue default: archive full → outcome"
    assert set_queue("--archive", "none") == "queue default: archive outcome → none"
    assert Queue.objects.get().archive == "none"


def test_a_dry_run_changes_nothing() -> None:
    assert json.loads(set_queue("--archive", "none", "--dry-run", "--json")) == {
        "version": 1, "action": "set", "queue": "default", "before": {"archive": "full"},
        "after": {"archive": "none"}, "dry_run": True,
    }  # fmt: skip
    assert not Queue.objects.exists()
    answer = json.loads(set_channel("--max-size", 10, "--dry-run", "--json"))
    assert (answer["before"], answer["after"], answer["dry_run"]) == ({"max_size": 50}, {"max_size": 10}, True)
    assert Channel.objects.get(name="acme").max_size == 50
    assert json.loads(set_limit("--max-cost", 5, "--dry-run", "--json")) == {
        "version": 1, "action": "set", "limit": "stripe", "dry_run": True, "before": None, "after": {"max_cost": 5},
    }  # fmt: skip
    assert not SharedLimit.objects.exists()


def test_limits_of_a_queue_and_their_end() -> None:
    given = ["--max-concurrency", "20", "--rate", "100/s burst 50", "--fairness", "share", "--max-share", "0.75"]
    assert set_queue(*given) == (
        "queue default: max_concurrency none → 20, rate none → 100/s burst 50, fairness turns → share, "
        "max_share none → 0.75"
    )
    queue = Queue.objects.get()
    assert (queue.max_concurrency, queue.release_interval, queue.release_burst) == (20, timedelta(seconds=0.01), 50)
    assert (queue.fairness, float(queue.max_share)) == ("share", 0.75)
    assert set_queue("--max-concurrency", "none", "--rate", "none", "--max-share", "none") == (
        "queue default: max_concurrency 20 → none, rate 100/s burst 50 → none, max_share 0.75000 → none"
    )
    queue.refresh_from_db()
    assert (queue.max_concurrency, queue.release_interval, queue.max_share) == (None, None, None)
    assert queue.release_burst == 1


def test_retention_takes_a_duration_with_its_unit_or_none() -> None:
    assert set_queue("--retention", "7d", "--dead-letter-retention", "12h") == (
        "queue default: retention none → 7 days, 0:00:00, dead_letter_retention none → 12:00:00"
    )
    assert Queue.objects.get().retention == timedelta(days=7)
    assert set_queue("--retention", "none") == "queue default: retention 7 days, 0:00:00 → none"
    assert Queue.objects.get().retention is None
    with pytest.raises(CommandError, match="7 has no unit: give 7d for days"):
        set_queue("--retention", "7")


def test_events_are_switched_and_a_pause_stays() -> None:
    queue_pause("default", reason="the provider is down")
    assert set_queue("--events", "--dry-run") == "queue default: events off → on"
    assert not Queue.objects.get().events
    assert set_queue("--events") == "queue default: events off → on"
    queue = Queue.objects.get()
    assert (queue.events, queue.pause_reason) == (True, "the provider is down")
    assert queue.paused_at is not None
    assert json.loads(set_queue("--no-events", "--json"))["after"] == {"events": False}
    assert not Queue.objects.get().events


def test_limits_of_a_channel_are_set_and_lifted_and_hold_at_once() -> None:
    for _ in range(3):
        enqueue("h", channel="acme")
    text = set_channel("--max-concurrency", 2, "--max-size", "none", "--rate", "2/s burst 5")
    assert text == "channel default/acme: max_concurrency none → 2, max_size 50 → none, rate none → 2/s burst 5"
    assert len(dequeue(limit=5)) == 2
    set_channel("--max-concurrency", "none", "--rate", "none", "--full-policy", "drop", "--weight", 3)
    channel = Channel.objects.get(name="acme")
    assert (channel.max_concurrency, channel.release_interval, channel.release_burst) == (None, None, 1)
    assert (channel.full_policy, channel.weight, channel.max_size) == ("drop", 3, None)


def test_a_channel_that_is_not_there_is_made() -> None:
    assert pgqueue("set channel new --queue mails --weight 2") == "channel mails/new: weight - → 2"
    assert Channel.objects.get(queue="mails", name="new").weight == 2
    assert pgqueue("set channel newer --queue mails") == "channel mails/newer: made, without limits"
    assert Channel.objects.filter(queue="mails", name="newer").exists()


def test_the_order_of_a_channel_is_set_and_ended() -> None:
    text = set_channel("--ordered", "--on-dead", "pause")
    assert text == "channel default/acme: ordered off → on, on_dead continue → pause"
    channel = Channel.objects.get(name="acme")
    assert (channel.ordered, channel.on_dead, channel.max_concurrency) == (True, "pause", 1)
    set_channel("--no-ordered", "--max-concurrency", "none")
    channel.refresh_from_db()
    assert (channel.ordered, channel.max_concurrency) == (False, None)


def test_a_limit_is_made_changed_and_lifted_and_holds_at_once() -> None:
    assert set_limit("--max-concurrency", 2, "--handler", "h", "--handler", "mail") == (
        "limit stripe: max_concurrency - → 2, handlers - → h, mail"
    )
    for _ in range(3):
        enqueue("h")
    assert len(dequeue(limit=5)) == 2
    text = set_limit("--max-concurrency", "none", "--max-cost", 50, "--handler", "none", "--rate", "5/s burst 20")
    assert text == (
        "limit stripe: max_concurrency 2 → none, max_cost none → 50, rate none → 5/s burst 20, handlers h, mail → none"
    )
    limit = SharedLimit.objects.get()
    assert (limit.max_concurrency, limit.max_cost, limit.release_burst) == (None, 50, 20)
    set_limit("--rate", "none")
    limit.refresh_from_db()
    assert (limit.release_interval, limit.release_burst) == (None, 1)


@cases(
    ("words", "complaint"),
    [
        ("queue default", "Name at least one setting"),
        ("queue default --archive some", "invalid choice"),
        ("queue nowhere --archive none", "There is no queue nowhere"),
        ("queue default --max-share nan", "max_share takes a number or None, not nan"),
        ("queue default --retention soon", "not a duration"),
        ("channel acme", "Name at least one setting"),
        ("channel acme --weight 1001", "weight"),
        ("channel acme --max-size 0", "at least 1"),
        ("channel acme --rate often", "which is no rate"),
        ("limit stripe --max-concurrency 0", "max-concurrency"),
        (f"limit {'x' * 201} --max-cost 5", "1 to 200 characters"),
    ],
)
def test_invalid_settings_are_refused_and_make_nothing(words: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        pgqueue(f"set {words}")
    assert not Queue.objects.exists()
    assert not SharedLimit.objects.exists()
