"""Declarations in code, and how the table follows them."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from django_pgqueue import handler, handlers, schedule, schedules
from django_pgqueue.checks import configuration
from django_pgqueue.exceptions import InvalidSchedule
from django_pgqueue.maintenance.declared import SyncCounts, sync_schedules
from django_pgqueue.maintenance.scheduler import Scheduler
from django_pgqueue.models import Schedule
from tests.maintenance.conftest import make, plan
from tests.support.cases import cases
from tests.support.codecs import SECRET, Toy

NOTHING = SyncCounts(added=0, changed=0, removed=0)


def declare(when: str | timedelta = "30 2 * * *", *, handler_name: str = "reports.make", **values: object) -> None:
    known = handlers.find(handler_name)
    function = known.function if known else lambda delivery: None
    schedule(when, **values)(handler(handler_name)(function))


def forget() -> None:
    """As if the code were gone."""
    schedules._declared.clear()


def test_a_declared_schedule_becomes_a_row_and_then_nothing_changes(settings):
    settings.TIME_ZONE = "Europe/Berlin"
    declare(payload={"a": (1, 2)}, headers={"x": 1}, priority=2, missed="all", missed_limit=7)
    assert sync_schedules() == SyncCounts(added=1, changed=0, removed=0)
    assert sync_schedules() == NOTHING
    row = Schedule.objects.get()
    assert (row.name, row.handler, row.cron, row.every) == ("reports.make", "reports.make", "30 2 * * *", None)
    assert (row.time_zone, row.queue, row.channel) == ("Europe/Berlin", "default", "default")
    assert (row.payload, row.headers, row.priority) == ({"a": [1, 2]}, {"x": 1}, 2)
    assert (row.missed, row.missed_limit, row.overlap, row.enabled) == ("all", 7, True, True)
    assert row.declared_in == __name__


def test_decorators_come_in_any_order():
    @handler("reports.a")
    @schedule(timedelta(hours=1))
    def a(delivery): ...

    @schedule(timedelta(hours=2), name="first")
    @schedule(timedelta(hours=3), name="second")
    @handler("reports.b", queue="mail")
    def b(delivery): ...

    sync_schedules()
    found = Schedule.objects.values_list("name", "handler", "queue", "every")
    assert set(found) == {
        ("reports.a", "reports.a", "default", timedelta(hours=1)),
        ("first", "reports.b", "mail", timedelta(hours=2)),
        ("second", "reports.b", "mail", timedelta(hours=3)),
    }


def nothing(): ...


def two(delivery, more): ...


def yields(delivery):
    yield 1


@cases(
    ("function", "problem"),
    [
        (nothing, r"test_declared.nothing is called with one delivery .* Write def nothing\(delivery: Delivery\)"),
        (two, "two is called with one delivery and nothing else"),
        (yields, "yields has a yield"),
        (5, "@schedule is on 5"),
        (int, "@schedule is on <class 'int'>"),
    ],
)
def test_a_function_that_cannot_be_a_handler_is_refused_at_import(function: Any, problem: str):
    with pytest.raises(InvalidSchedule, match=problem):
        schedule("@daily")(function)
    assert schedules.collect_declared_schedules().found == {}


def test_a_schedule_without_a_time_says_so():
    with pytest.raises(InvalidSchedule, match=r"test_declared.two does not say when .*@schedule\("):
        schedule(two)  # type: ignore[arg-type]


def test_code_decides_but_whether_it_is_enabled():
    declare(payload=1)
    sync_schedules()
    Schedule.objects.update(enabled=False, payload=5, cron="0 0 * * *")
    assert sync_schedules() == SyncCounts(added=0, changed=1, removed=0)
    row = Schedule.objects.get()
    assert (row.enabled, row.payload, row.cron) == (False, 1, "30 2 * * *")


def test_a_schedule_that_code_changes_is_planned_anew_and_no_other():
    declare()
    declare(timedelta(hours=1), name="hourly")
    sync_schedules()
    for name in ("reports.make", "hourly"):
        plan(name, minutes=-20)
    before = Schedule.objects.get(name="hourly").next_fire_at
    forget()
    declare("45 2 * * *")
    declare(timedelta(hours=1), name="hourly", payload={"new": True})
    assert sync_schedules() == SyncCounts(added=0, changed=2, removed=0)
    assert Schedule.objects.get(name="reports.make").next_fire_at is None
    assert Schedule.objects.get(name="hourly").next_fire_at == before


def test_a_schedule_that_code_does_not_declare_any_more_rests_until_it_is_declared_again():
    declare(timedelta(hours=1), missed="once")
    make("by hand")
    sync_schedules()
    plan("reports.make", minutes=5)
    forget()
    assert sync_schedules() == SyncCounts(added=0, changed=0, removed=1)
    assert sync_schedules() == NOTHING
    assert Schedule.objects.get(name="by hand").removed_at is None
    assert Scheduler().run_once("default").fired == 0

    declare(timedelta(hours=1), missed="once")
    assert Scheduler().run_once("default").fired == 1
    assert Schedule.objects.get(name="reports.make").removed_at is None


def test_schedules_of_modules_that_are_not_loaded_here_are_left_alone():
    """Another worker has that app; or its handlers cannot be imported at the moment."""
    make("theirs", declared_in="their_app.handlers")
    assert "their_app.handlers" not in sys.modules
    assert sync_schedules() == NOTHING
    assert Schedule.objects.get().removed_at is None


def test_a_row_made_by_hand_is_taken_over_by_code_of_the_same_name():
    make("reports.make")
    declare()
    assert sync_schedules() == SyncCounts(added=0, changed=1, removed=0)
    assert Schedule.objects.get().declared_in == __name__


def test_migrate_brings_the_table_up_to_date():
    declare()
    call_command("migrate", "pgqueue", verbosity=0)
    assert Schedule.objects.get().name == "reports.make"


def test_the_scheduler_begins_with_what_code_declares():
    declare()
    scheduler = Scheduler()
    scheduler.run_once("default")
    assert Schedule.objects.get().next_fire_at > datetime.now(UTC)
    Schedule.objects.all().delete()
    scheduler.run_once("default")
    assert not Schedule.objects.exists(), "once in its life"


def test_a_declaration_that_makes_no_sense_changes_nothing_for_the_others(caplog: pytest.LogCaptureFixture):
    schedule("@daily")(lambda delivery: None)
    declare(timedelta(hours=1), name="double")
    declare(timedelta(hours=2), name="double")
    declare(timedelta(hours=1), name="no json", payload=object())
    declare(timedelta(hours=1), name="good")
    make("no json", declared_in=__name__)

    assert sync_schedules() == SyncCounts(added=2, changed=0, removed=0)
    assert Schedule.objects.get(name="double").every == timedelta(hours=1)
    assert Schedule.objects.get(name="no json").removed_at is None
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    for problem in ("is not a handler", "two schedules are called 'double'", "schedule no json is not JSON"):
        assert any(problem in error for error in errors), problem
    found = configuration.configuration_messages()
    assert [message.id for message in found] == ["pgqueue.E008", "pgqueue.E008"]
    assert "@handler" in found[0].hint


def test_a_function_with_two_names_must_say_which():
    def work(delivery): ...

    schedule("@daily")(handler("reports.a")(handler("reports.b")(work)))
    schedule("@daily", handler="reports.b", name="this one")(work)
    [problem] = schedules.collect_declared_schedules().problems
    assert "reports.a, reports.b" in str(problem)
    assert list(schedules.collect_declared_schedules().found) == ["this one"]


@cases(
    ("arguments", "field"),
    [
        ({"when": "every day"}, "cron"),
        ({"when": 5}, "cron"),
        ({"when": timedelta(0)}, "every"),
        ({"when": "@daily", "time_zone": "Europe/Bonn"}, "time_zone"),
        ({"when": "@daily", "missed": "twice"}, "missed"),
        ({"when": "@daily", "missed_limit": 0}, "missed_limit"),
        ({"when": "@daily", "name": "x" * 151}, "name"),
        ({"when": "@daily", "grace": timedelta(seconds=-1)}, "grace"),
        ({"when": "@daily", "grace": 60}, "grace"),
        ({"when": "@daily", "missed_limit": "3"}, "missed_limit"),
        ({"when": "@daily", "missed_limit": True}, "missed_limit"),
    ],
)
def test_wrong_arguments_are_named_where_they_stand(arguments: dict[str, object], field: str):
    with pytest.raises(InvalidSchedule) as raised:
        schedule(**arguments)
    assert raised.value.field == field


def test_with_a_codec_a_declared_payload_is_encoded_and_written_once(settings):
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": Toy()}
    for payload, channel, counts in (
        ({"s": SECRET}, "default", SyncCounts(added=1, changed=0, removed=0)),
        ({"s": f"{SECRET} again"}, "default", SyncCounts(added=0, changed=1, removed=0)),
        ({"s": f"{SECRET} again"}, "other", SyncCounts(added=0, changed=1, removed=0)),
    ):
        forget()
        declare(payload=payload, channel=channel)
        assert sync_schedules() == counts
        assert sync_schedules() == NOTHING
        row = Schedule.objects.get()
        assert row.payload["data"].startswith(f"{channel}:")
        assert row.opened_payload("default") == payload


def test_a_payload_that_was_declared_before_the_codec_is_encoded(settings):
    declare(payload={"s": SECRET})
    sync_schedules()
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": Toy()}
    assert sync_schedules() == SyncCounts(added=0, changed=1, removed=0)
    assert sync_schedules() == NOTHING
    assert SECRET not in str(Schedule.objects.get().payload)
