"""The lists of things."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.utils import timezone

from django_pgqueue import (
    channel_pause,
    channel_set,
    dead_letter,
    dequeue,
    enqueue,
    handler_pause,
    limit_pause,
    limit_set,
    queue_pause,
    queue_set,
    retry,
)
from django_pgqueue.models import Schedule, Worker
from tests.support.commands import pgqueue

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channels() -> None:
    channel_set(channel="default")
    channel_set(channel="acme", queue="mails", max_concurrency=5, rate="10/m")


def rows(things: str, *arguments: object) -> list[dict[str, Any]]:
    """The rows of a list, as programs read them."""
    answer = json.loads(pgqueue(things, *arguments, "--json"))
    assert answer.pop("version") == 1
    [found] = answer.values()
    return found


def table(things: str, *arguments: object) -> list[list[str]]:
    """The rows of a list, as people read them."""
    return [line.split() for line in pgqueue(things, *arguments).splitlines()[1:]]


def test_queues_with_their_settings_and_state() -> None:
    queue_set("mails", max_concurrency=20, rate="100/s burst 50")
    queue_pause("mails", reason="the provider is down")
    assert table("queues") == [
        ["default", "-", "-", "-", "turns", "-", "full", "-", "-", "no"],
        ["mails", "paused", "20", "100/s", "burst", "50", "turns", "-", "full", "-", "-", "no"],
    ]
    [mails] = rows("queues", "--queue", "mails")
    assert (mails["rate"], mails["pause_reason"]) == ("100/s burst 50", "the provider is down")


def test_channels_with_their_messages_and_limits() -> None:
    for _ in range(3):
        enqueue("h", queue="mails", channel="acme")
    dequeue(queue="mails")
    channel_pause(channel="acme", queue="mails")
    assert table("channels", "--queue", "mails") == [
        ["mails", "acme", "paused", "2", "1", "0", "0", "5", "10/m", "-", "1"]
    ]
    assert [row["channel"] for row in rows("channels")] == ["default", "acme"]
    assert [row["ready"] for row in rows("channels", "--channel", "acme")] == [2]


def test_messages_that_filters_choose_and_their_last_error() -> None:
    first, second = (enqueue("mail.send", {"to": "secret"}, queue="mails", channel="acme").id for _ in range(2))
    other = enqueue("h").id
    [delivery] = dequeue(queue="mails", worker="w1")
    assert [row["id"] for row in rows("messages")] == [first, second, other]
    assert [row["id"] for row in rows("messages", "--worker", "w1")] == [first]
    assert [row["id"] for row in rows("messages", "--status", "ready", "--queue", "mails")] == [second]
    assert [row["id"] for row in rows("messages", second, other)] == [second, other]
    retry(delivery, errors=[{"type": "TimeoutError"}], delays=[timedelta(hours=1)])
    [row] = rows("messages", first)
    assert (row["status"], row["attempts"], row["error"]) == ("scheduled", 1, "TimeoutError")
    assert "secret" not in pgqueue("messages") + pgqueue("messages", "--json")


def test_dead_letters_that_filters_choose() -> None:
    sent = enqueue("mail.send", {"to": "secret"}, queue="mails", channel="acme").id
    dead_letter(dequeue(queue="mails"), reason="refused")
    [row] = rows("dead", "--reason", "refused", "--handler", "mail.send")
    assert (row["id"], row["queue"], row["channel"], row["reason"]) == (sent, "mails", "acme", "refused")
    assert pgqueue("dead", "--reason", "failed") == "No dead letters."
    assert "secret" not in pgqueue("dead")


def test_schedules_and_when_they_fire() -> None:
    Schedule.objects.create(name="nightly", handler="report", cron="30 2 * * *", time_zone="UTC")
    Schedule.objects.create(
        name="often", handler="h", queue="mails", channel="acme", every=timedelta(minutes=10), enabled=False
    )
    found = [(row["name"], row["when"], row["state"]) for row in rows("schedules") if row["name"] != "tower"]
    assert found == [
        ("nightly", "30 2 * * * UTC", "enabled"), ("often", "every 0:10:00", "disabled"),
    ]  # fmt: skip
    assert [row["name"] for row in rows("schedules", "--queue", "mails")] == ["often"]
    assert [row["name"] for row in rows("schedules", "--handler", "report")] == ["nightly"]


def test_limits_their_use_and_why_messages_wait() -> None:
    limit_set("stripe", max_concurrency=1, rate="5/s", handlers=["h"])
    for _ in range(3):
        enqueue("h")
    dequeue(limit=3)
    limit_pause("stripe")
    assert table("limits", "--handler", "h") == [["stripe", "paused", "1", "-", "5/s", "-", "1", "2", "paused", "h"]]
    handler_pause("other")
    assert [row["name"] for row in rows("limits")] == ["handler other", "stripe"]


def test_workers_and_those_that_are_silent() -> None:
    for name, queue, age in (("gone", "mails", 3600), ("here", "default", 0)):
        Worker.objects.create(
            name=name, hostname="h", pid=1, queues=[queue], concurrency=4, version="1",
            heartbeat_at=timezone.now() - timedelta(seconds=age),
        )  # fmt: skip
    assert [(row["name"], row["state"]) for row in rows("workers")] == [("gone", "silent"), ("here", "running")]
    assert [row["name"] for row in rows("workers", "--queue", "mails")] == ["gone"]


def test_more_rows_than_the_limit_are_named_on_stderr() -> None:
    for _ in range(3):
        enqueue("h")
    warned = StringIO()
    assert len(pgqueue("messages --limit 2", stderr=warned).splitlines()) == 3
    assert warned.getvalue() == "There are more than 2: choose by filters, or give a higher --limit.\n"
    assert len(rows("messages", "--limit", 3)) == 3
