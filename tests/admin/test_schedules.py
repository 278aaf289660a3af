"""Schedules in the admin: the form, the next times, the results of the last ticks, and the actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_pgqueue import channel_release, channel_set, handler, handlers
from django_pgqueue.maintenance.scheduler import Scheduler
from django_pgqueue.models import Message, Schedule, ScheduleTick
from tests.admin.conftest import Page, act, address, logged, notices
from tests.support.cases import cases

FORM = {
    "name": "nightly",
    "enabled": "on",
    "cron": "",
    "every": "",
    "time_zone": "Europe/Berlin",
    "handler": "reports.make",
    "payload": '{"all": true}',
    "headers": "",
    "queue": "default",
    "channel": "default",
    "priority": "0",
    "grace": "00:01:00",
    "missed": "skip",
    "missed_limit": "100",
    "overlap": "on",
}


@pytest.fixture(autouse=True)
def _handler(db: None) -> Iterator[None]:
    """And none of the demo's schedules."""
    Schedule.objects.all().delete()
    handler("reports.make")(lambda delivery: None)
    yield
    handlers.unregister("reports.make")


def make(name: str = "nightly", **values: object) -> Schedule:
    return Schedule.objects.create(**{"name": name, "handler": "reports.make", "cron": "30 2 * * *"} | values)


def save(client: Client, schedule: Schedule | None = None, **values: str) -> list[str]:
    """Send the form; returns what it complains about."""
    path = address("schedule", schedule.pk) if schedule else f"{address('schedule')}add/"
    response = client.post(path, {name: value for name, value in {**FORM, **values}.items() if value is not None})
    if response.status_code == 302:
        return []
    form = response.context["adminform"].form
    return [f"{name}: {text}" for name, texts in form.errors.items() for text in texts]


@pytest.mark.parametrize("when", [{"cron": "30 2 * * *"}, {"every": "00:10:00"}])
def test_a_schedule_is_made_by_hand(admin_client: Client, when: dict[str, str]) -> None:
    assert save(admin_client, **when) == []
    schedule = Schedule.objects.get(name="nightly")
    assert (schedule.handler, schedule.payload, schedule.declared_in) == ("reports.make", {"all": True}, "")
    assert (schedule.cron, schedule.every) in {("30 2 * * *", None), (None, timedelta(minutes=10))}
    Scheduler().run_once("default")
    assert Schedule.objects.get(name="nightly").next_fire_at > datetime.now(UTC)


@cases(
    ("values", "field", "problem"),
    [
        ({}, "cron", "cron expression or an interval"),
        ({"cron": "@daily", "every": "10"}, "cron", "one of them"),
        ({"cron": "61 * * * *"}, "cron", "Bad minute"),
        ({"cron": "0 0 30 2 *"}, "cron", "Bad day-of-month"),
        ({"every": "00:00:00.5"}, "every", "between a second and ten years"),
        ({"cron": "@daily", "time_zone": "Europe/Bonn"}, "time_zone", "no time zone"),
        ({"cron": "@daily", "handler": "reports.mak"}, "handler", "reports.make"),
        ({"cron": "@daily", "channel": "nowhere"}, "channel", "no open channel"),
        ({"cron": "@daily", "channel": "closing"}, "channel", "no open channel"),
        ({"cron": "@daily", "missed_limit": "0"}, "missed_limit", "greater than or equal to 1"),
        ({"cron": "@daily", "missed_limit": "1001"}, "missed_limit", "less than or equal to 1000"),
        ({"cron": "@daily", "grace": "-5"}, "grace", "not negative"),
        ({"cron": "@daily", "payload": "{"}, "payload", "valid JSON"),
        ({"cron": "@daily", "priority": "99999"}, "priority", "less than or equal"),
        ({"cron": "@daily", "name": ""}, "name", "required"),
    ],
)
def test_an_invalid_value_is_reported_beside_its_field(
    admin_client: Client, values: dict[str, str], field: str, problem: str
) -> None:
    channel_set(channel="closing")
    channel_release(channel="closing")
    complaints = save(admin_client, **values)
    assert [text for text in complaints if text.startswith(f"{field}: ") and problem in text], complaints
    assert not Schedule.objects.exists()


def test_an_edit_writes_what_was_edited_and_plans_anew(admin_client: Client) -> None:
    schedule = make(time_zone="Europe/Berlin", payload={"all": True})
    planned = datetime(2030, 1, 1, tzinfo=UTC)
    Schedule.objects.update(next_fire_at=planned, last_fired_at=planned)
    with CaptureQueriesContext(connection) as captured:
        assert save(admin_client, schedule, cron="30 2 * * *", priority="4") == []
    [update] = [entry["sql"] for entry in captured if entry["sql"].startswith('UPDATE "pgqueue_schedule"')]
    assert '"priority" = 4' in update
    assert "fire_at" not in update
    assert Schedule.objects.get().next_fire_at == planned
    assert save(admin_client, schedule, cron="45 2 * * *", priority="4") == []
    schedule.refresh_from_db()
    assert (schedule.cron, schedule.priority, schedule.next_fire_at) == ("45 2 * * *", 4, None)
    assert schedule.last_fired_at == planned


def test_of_a_schedule_in_code_only_enabled_is_edited(admin_client: Client) -> None:
    schedule = make(declared_in="shop.handlers")
    assert save(admin_client, schedule, cron="0 0 * * *", enabled=None) == []
    schedule.refresh_from_db()
    assert (schedule.cron, schedule.enabled) == ("30 2 * * *", False)
    assert save(admin_client, schedule) == []
    assert Schedule.objects.get().enabled


def test_the_next_times_are_shown_by_the_wall_clock_of_the_schedule(page: Callable[..., str]) -> None:
    schedule = make(time_zone="Asia/Kolkata", enabled=False)
    text = page("schedule", schedule.pk)
    assert text.count("02:30:00") == 5
    assert "Asia/Kolkata" in text


def test_a_schedule_that_makes_no_sense_is_still_shown(page: Callable[..., str]) -> None:
    """Written by SQL."""
    broken = make(cron="99 * * * *", time_zone="Mars/Olympus")
    assert "no time zone" in page("schedule", broken.pk)
    assert "99 * * * *" in page("schedule")


def test_the_last_ticks_are_shown(page: Callable[..., str]) -> None:
    schedule = make(last_error='the channel "x" is gone')
    moment = datetime(2026, 11, 1, 12, tzinfo=UTC)
    ScheduleTick.objects.create(schedule="nightly", tick_at=moment, outcome="created", message_id=4711)
    ScheduleTick.objects.create(
        schedule="nightly", tick_at=moment + timedelta(days=1), outcome="refused", error="no <canary> such channel"
    )
    text = page("schedule", schedule.pk)
    assert "message 4711" in text
    assert text.index("&lt;canary&gt; such channel") < text.index("message 4711")
    assert "failing" in page("schedule")


def test_states_are_shown_and_filtered(page: Callable[..., str]) -> None:
    make("runs")
    make("stands", enabled=False)
    make("fails", last_error="oh")
    make("left", removed_at=datetime(2026, 1, 1, tzinfo=UTC), declared_in="shop.handlers")
    for state, name in {"disabled": "stands", "failing": "fails", "removed": "left"}.items():
        text = page("schedule", state=state)
        assert [other for other in ("runs", "stands", "fails", "left") if f">{other}<" in text] == [name]
    assert "removed from code" in page("schedule")


def test_run_now_asks_first_then_makes_a_message(admin_client: Client) -> None:
    schedule = make(enabled=False)
    assert "Run now" in act(admin_client, "schedule", "run_now", schedule.pk).content.decode()
    assert not Message.objects.exists()
    response = act(admin_client, "schedule", "run_now", schedule.pk, confirmed="yes")
    message = Message.objects.get()
    assert notices(response) == "1 message is enqueued."
    assert logged() == [("nightly", f"Run: message {message.pk}.", "admin")]


def test_run_now_says_what_it_did_not_do(admin_client: Client) -> None:
    once, lost = make(overlap=False), make("lost", channel="nowhere")
    act(admin_client, "schedule", "run_now", once.pk, confirmed="yes")
    response = act(admin_client, "schedule", "run_now", once.pk, lost.pk, confirmed="yes")
    assert "0 messages are enqueued." in notices(response)
    assert "1 enqueued nothing: an earlier message is still live" in notices(response)
    assert "nowhere" in notices(response)
    assert Message.objects.count() == 1


def test_schedules_are_switched_off_and_on(admin_client: Client) -> None:
    first, second = make("first"), make("second", enabled=False)
    Schedule.objects.update(next_fire_at=datetime(2030, 1, 1, tzinfo=UTC))
    assert notices(act(admin_client, "schedule", "disable", first.pk, second.pk)) == "1 schedule is disabled."
    assert notices(act(admin_client, "schedule", "enable", first.pk, second.pk)) == "2 schedules are enabled."
    assert list(Schedule.objects.values_list("enabled", "next_fire_at")) == [(True, None), (True, None)]
    assert logged() == [
        ("first", "Disabled.", "admin"), ("first", "Enabled.", "admin"), ("second", "Enabled.", "admin"),
    ]  # fmt: skip


def test_a_schedule_is_deleted(admin_client: Client) -> None:
    schedule = make()
    path = address("schedule", schedule.pk).replace("/change/", "/delete/")
    assert admin_client.post(path, {"post": "yes"}).status_code == 302
    assert not Schedule.objects.exists()


def test_the_pages_have_no_inline_code(page: Callable[..., str]) -> None:
    schedule = make(payload={"x": "<canary>"})
    for text in (page("schedule"), page("schedule", schedule.pk)):
        assert Page(text).canaries() == []
