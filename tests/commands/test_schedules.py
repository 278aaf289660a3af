from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_release, channel_set, handler, handlers
from django_pgqueue.maintenance.scheduler import Scheduler
from django_pgqueue.models import Message, Schedule
from tests.support.cases import cases
from tests.support.commands import pgqueue

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nightly() -> Iterator[None]:
    channel_set(channel="default")
    handler("report")(lambda delivery: None)
    Schedule.objects.create(name="nightly", handler="report", cron="@daily", overlap=False)
    yield
    handlers.unregister("report")


def run(*arguments: object) -> str:
    return pgqueue(f"{arguments[0]} schedule", *arguments[1:])


def test_a_schedule_runs_now() -> None:
    assert run("run", "nightly", "--dry-run") == "schedule nightly would be run."
    assert not Message.objects.exists()
    answer = json.loads(run("run", "nightly", "--json"))
    assert (answer["outcome"], answer["message"]) == ("created", Message.objects.get().pk)
    with pytest.raises(CommandError, match="created no message"):
        run("run", "nightly")


def test_a_schedule_is_switched() -> None:
    assert run("disable", "nightly") == "schedule nightly is disabled."
    assert not Schedule.objects.get(name="nightly").enabled
    run("enable", "nightly", "--dry-run")
    assert not Schedule.objects.get(name="nightly").enabled
    run("enable", "nightly")
    assert Schedule.objects.get(name="nightly").enabled


def test_a_schedule_is_made() -> None:
    arguments = ("set", "hourly", "--handler", "report", "--every", 3600, "--payload", '{"all": true}')
    assert run(*arguments, "--dry-run") == "schedule hourly: every - → 1:00:00, handler - → report, another payload"
    assert not Schedule.objects.filter(name="hourly").exists()
    answer = json.loads(run(*arguments, "--no-overlap", "--json"))
    assert (answer["created"], answer["before"], answer["replaced"]) == (True, None, ["payload"])
    assert answer["after"] == {"handler": "report", "every": "1:00:00", "overlap": False}
    schedule = Schedule.objects.get(name="hourly")
    assert (schedule.every, schedule.payload, schedule.overlap) == (timedelta(hours=1), {"all": True}, False)
    assert (schedule.enabled, schedule.declared_in) == (True, "")
    Scheduler().run_once("default")
    assert Schedule.objects.get(name="hourly").next_fire_at is not None


def test_a_schedule_is_changed_and_nothing_else_of_it() -> None:
    Schedule.objects.update(payload={"secret": 1}, enabled=False)
    assert run("set", "nightly", "--every", 60) == "schedule nightly: cron @daily → none, every none → 0:01:00"
    schedule = Schedule.objects.get(name="nightly")
    assert (schedule.cron, schedule.every, schedule.enabled) == (None, timedelta(minutes=1), False)
    assert (schedule.payload, schedule.handler, schedule.overlap) == ({"secret": 1}, "report", False)
    assert "secret" not in run("set", "nightly", "--payload", "null", "--headers", '{"a": 1}')
    schedule.refresh_from_db()
    assert (schedule.payload, schedule.headers) == (None, {"a": 1})
    assert run("set", "nightly", "--every", 60) == "schedule nightly: as it was"


def test_it_is_planned_anew() -> None:
    Scheduler().run_once("default")
    before = Schedule.objects.get(name="nightly").next_fire_at
    run("set", "nightly", "--cron", "17 3 * * *", "--time-zone", "UTC")
    Scheduler().run_once("default")
    after = Schedule.objects.get(name="nightly").next_fire_at
    assert after != before
    assert (after.hour, after.minute) == (3, 17)


@cases(
    ("arguments", "complaint"),
    [
        (["set", "nightly"], "Name at least one option"),
        (["set", "nightly", "--cron", "61 * * * *"], "Bad minute"),
        (["set", "nightly", "--every", "0.5"], "between a second and ten years"),
        (["set", "nightly", "--time-zone", "Europe/Bonn"], "no time zone"),
        (["set", "nightly", "--handler", "reprot"], "handlers are: .*report"),
        (["set", "nightly", "--channel", "nowhere"], "no open channel 'nowhere'"),
        (["set", "nightly", "--channel", "released"], "no open channel 'released'"),
        (["set", "nightly", "--missed-limit", "1001"], "missed_limit"),
        (["set", "nightly", "--headers", "[]"], "JSON object"),
        (["set", "nightly", "--grace", "-1"], "expected one argument|not a duration"),
        (["set", "weekly", "--handler", "report"], "cron expression or an interval"),
        (["set", "weekly", "--cron", "@weekly"], "handler"),
        (["set", "weekly", "--handler", "report", "--cron", "@weekly", "--queue", "mails"], "'mails' has no open"),
        (["drop", "weekly"], "no schedule weekly"),
        (["drop", "nightly", "--cron", "@daily"], "unrecognized arguments: --cron @daily"),
    ],
)
def test_invalid_schedules_are_refused_and_change_nothing(arguments: list[str], complaint: str) -> None:
    channel_set(channel="released")
    channel_release(channel="released")
    before = list(Schedule.objects.values())
    for dry in ([], ["--dry-run"]):
        with pytest.raises(CommandError, match=complaint):
            run(*arguments, *dry)
    assert list(Schedule.objects.values()) == before


def test_a_schedule_that_code_declares_cannot_be_set_by_the_command() -> None:
    Schedule.objects.update(declared_in="shop.handlers")
    with pytest.raises(CommandError, match=r"shop\.handlers declares 'nightly'"):
        run("set", "nightly", "--every", 60)
    assert run("drop", "nightly") == "schedule nightly is dropped; a worker that has shop.handlers makes it again."


def test_a_schedule_is_dropped() -> None:
    assert run("drop", "nightly", "--dry-run") == "schedule nightly would be dropped."
    assert Schedule.objects.filter(name="nightly").exists()
    assert run("drop", "nightly") == "schedule nightly is dropped."
    assert not Schedule.objects.filter(name="nightly").exists()
