"""The scheduler, a step at a time. Time passes by moving what is planned."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from django_pgqueue import channel_pause, channel_release, channel_set, dequeue, handler, schedule_run
from django_pgqueue.backoff import Exponential
from django_pgqueue.maintenance.loop import MaintenanceLoop
from django_pgqueue.maintenance.scheduler import ScheduleCounts, Scheduler, due_schedules
from django_pgqueue.models import Message, Schedule, ScheduleTick
from tests.maintenance.conftest import made, make, pass_time_of_schedules, plan
from tests.support.cases import cases

NOTHING = ScheduleCounts(fired=0, passed_over=0, failed=0)


def run() -> ScheduleCounts:
    return Scheduler().run_once("default")


def clock() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def test_a_new_schedule_is_planned_and_does_not_fire_yet():
    schedule = make(every=timedelta(minutes=10))
    before = clock()
    assert run() == NOTHING
    schedule.refresh_from_db()
    assert timedelta(minutes=9, seconds=59) <= schedule.next_fire_at - before <= timedelta(minutes=10, seconds=1)
    assert schedule.next_fire_at.microsecond == 0
    assert made() == []


def test_cron_is_planned_by_the_wall_clock_of_its_zone():
    make(cron="30 8 * * *", time_zone="Asia/Kolkata")
    run()
    planned = Schedule.objects.get().next_fire_at.astimezone(UTC)
    assert (planned.hour, planned.minute) == (3, 0)


def test_a_tick_makes_one_message_that_says_where_it_comes_from():
    channel_set(channel="acme", queue="mail")
    make(
        queue="mail", channel="acme", payload={"kind": "daily"}, headers={"tenant": 7}, priority=3,
        every=timedelta(hours=1),
    )  # fmt: skip
    run()
    pass_time_of_schedules(hours=1)
    due_at = Schedule.objects.get().next_fire_at
    assert run() == ScheduleCounts(fired=1, passed_over=0, failed=0)
    assert run() == NOTHING

    [delivery] = dequeue("mail")
    assert (delivery.handler, delivery.channel, delivery.payload) == ("reports.make", "acme", {"kind": "daily"})
    assert delivery.priority == 3
    assert delivery.headers["tenant"] == 7
    assert delivery.headers["schedule"] == "nightly"
    assert datetime.fromisoformat(delivery.headers["tick_at"]) == due_at
    tick = ScheduleTick.objects.get()
    assert (tick.schedule, tick.tick_at, tick.outcome, tick.message_id) == ("nightly", due_at, "created", delivery.id)
    schedule = Schedule.objects.get()
    assert schedule.last_fired_at == due_at
    assert schedule.next_fire_at == due_at + timedelta(hours=1)


def test_the_messages_have_the_retry_policy_of_their_handler():
    policy = Exponential(timedelta(seconds=7), factor=3, longest=timedelta(minutes=1))
    handler("reports.make", max_attempts=9, backoff=policy)(lambda delivery: None)
    make()
    plan("nightly")
    run()
    schedule_run("nightly")
    wanted = (9, timedelta(seconds=7), 3, timedelta(minutes=1))
    stored = Message.objects.values_list("max_attempts", "backoff", "backoff_factor", "backoff_longest")
    assert list(stored) == [wanted, wanted]


def test_a_schedule_that_is_not_due_disabled_or_removed_does_not_fire():
    make("later")
    make("off", enabled=False)
    make("gone", removed_at=clock())
    plan("later", seconds=-60)
    plan("off", seconds=1)
    plan("gone", seconds=1)
    assert run() == NOTHING
    assert made() == []


@cases(
    ("missed", "late", "fired"),
    [
        ("skip", {"seconds": 5}, [0]),
        ("skip", {"seconds": 70}, [1]),
        ("skip", {"minutes": 10, "seconds": 45}, []),
        ("once", {"minutes": 10, "seconds": 45}, [10]),
        ("all", {"minutes": 3, "seconds": 45}, [0, 1, 2, 3]),
        ("all", {"minutes": 10, "seconds": 45}, [7, 8, 9, 10]),
    ],
)
def test_missed_ticks_follow_the_policy(missed: str, late: dict[str, int], fired: list[int]):
    """`fired`: the numbers of the ticks, counted from the first that was missed."""
    make(every=timedelta(minutes=1), missed=missed, missed_limit=4, grace=timedelta(seconds=30))
    plan("nightly", **late)
    first = Schedule.objects.get().next_fire_at
    run()
    ticks = [datetime.fromisoformat(headers["tick_at"]) for headers in made()]
    assert ticks == [first + timedelta(minutes=n) for n in fired]
    planned = Schedule.objects.get().next_fire_at
    assert planned > clock()
    assert (planned - first) % timedelta(minutes=1) == timedelta(0)
    assert run() == NOTHING


def test_a_missed_tick_is_logged(caplog: pytest.LogCaptureFixture):
    make()
    plan("nightly", minutes=30)
    with caplog.at_level(logging.WARNING, "django_pgqueue"):
        run()
    [record] = [record for record in caplog.records if record.event == "schedule_missed"]
    assert record.schedule == "nightly"


@pytest.mark.parametrize("change", [{"every": timedelta(minutes=7)}, {"every": None, "cron": "5 4 * * *"}])
def test_a_schedule_that_was_edited_is_planned_anew(change: dict[str, object]):
    """Through the ORM, by SQL: a trigger sees to it."""
    make()
    plan("nightly", hours=5)
    Schedule.objects.update(missed="all", **change)
    assert Schedule.objects.get().next_fire_at is None
    assert run() == NOTHING
    assert Schedule.objects.get().next_fire_at > clock()


def test_ticks_that_were_due_while_a_schedule_was_disabled_were_not_missed():
    make(missed="once")
    Schedule.objects.update(enabled=False)
    plan("nightly", hours=3)
    Schedule.objects.update(enabled=True)
    assert run() == NOTHING
    assert made() == []


def test_saving_other_fields_leaves_the_plan_alone():
    schedule = make()
    plan("nightly", seconds=-100)
    planned = Schedule.objects.get().next_fire_at
    schedule.refresh_from_db()
    schedule.payload = {"other": True}
    schedule.save()
    assert Schedule.objects.get().next_fire_at == planned


def test_a_tick_that_fired_never_fires_again():
    """Not even if the plan was set back: by hand, or with the clock of the server."""
    make(missed="once")
    plan("nightly", seconds=30)
    first = Schedule.objects.get().next_fire_at
    run()
    Schedule.objects.update(next_fire_at=first)
    assert run() == NOTHING
    assert len(made()) == 1
    assert Schedule.objects.get().next_fire_at > first


def test_without_overlap_a_live_message_holds_the_next_back():
    make(every=timedelta(minutes=1), overlap=False)
    plan("nightly")
    run()
    plan("nightly")
    Schedule.objects.update(next_fire_at=Schedule.objects.get().next_fire_at - timedelta(seconds=10))
    assert run() == ScheduleCounts(fired=0, passed_over=1, failed=0)
    assert len(made()) == 1
    assert set(ScheduleTick.objects.values_list("outcome", flat=True)) == {"created", "duplicate"}


def test_a_channel_that_refuses_is_reported_and_the_schedule_goes_on(caplog: pytest.LogCaptureFixture):
    channel_set(channel="closing")
    channel_release(channel="closing")
    make("closed", channel="closing")
    make("lost", channel="nowhere")
    make("healthy")
    for name in ("closed", "lost", "healthy"):
        plan(name)
    assert run() == ScheduleCounts(fired=1, passed_over=0, failed=2)
    assert [headers["schedule"] for headers in made()] == ["healthy"]
    for name in ("closed", "lost"):
        schedule = Schedule.objects.get(name=name)
        assert schedule.next_fire_at > clock()
        assert "channel" in schedule.last_error
        assert ScheduleTick.objects.get(schedule=name).outcome == "refused"
    assert {record.schedule for record in caplog.records if record.levelno == logging.ERROR} == {"closed", "lost"}

    channel_set(channel="nowhere")
    plan("lost", seconds=-1)
    Schedule.objects.filter(name="lost").update(next_fire_at=Schedule.objects.get(name="healthy").created_at)
    Schedule.objects.filter(name="lost").update(missed="once")
    run()
    assert Schedule.objects.get(name="lost").last_error == ""


def test_a_paused_channel_collects_its_ticks():
    make()
    channel_pause(channel="default")
    plan("nightly")
    assert run().fired == 1
    assert dequeue() == []


def test_a_definition_that_makes_no_sense_does_not_hold_up_the_others(caplog: pytest.LogCaptureFixture):
    """Written by SQL, past the checks of model and admin."""
    make("broken", cron="99 * * * *")
    make("nowhere", cron="0 3 * * *", time_zone="Mars/Olympus")
    make("healthy")
    plan("healthy")
    scheduler = Scheduler()
    assert scheduler.run_once("default") == ScheduleCounts(fired=1, passed_over=0, failed=2)
    assert {record.schedule for record in caplog.records if record.levelno == logging.ERROR} == {"broken", "nowhere"}
    assert "Bad minute" in Schedule.objects.get(name="broken").last_error
    caplog.clear()
    assert scheduler.run_once("default") == NOTHING
    assert caplog.records == []

    Schedule.objects.filter(name="broken").update(cron="9 * * * *")
    assert Schedule.objects.get(name="broken").last_error == ""
    run()
    assert Schedule.objects.get(name="broken").next_fire_at > clock()


def test_the_schedule_that_waits_longest_comes_first():
    for name, ago in {"young": 5, "old": 500, "middle": 50}.items():
        make(name)
        plan(name, seconds=ago)
    make("new")
    assert [schedule.name for schedule in due_schedules("default")] == ["old", "middle", "young", "new"]


def test_when_many_are_due_the_loop_comes_back_at_once():
    Schedule.objects.bulk_create(
        Schedule(name=f"s{n}", handler="h", every=timedelta(hours=1), next_fire_at=clock()) for n in range(150)
    )
    loop = MaintenanceLoop("default")
    assert loop.run_due() == 0.0
    assert len(made()) == 100
    loop.run_due()
    assert len(made()) == 150


@pytest.mark.auto_explain
def test_looking_for_what_is_due_costs_the_same_however_many_wait(record_plans: Callable[..., list[dict[str, Any]]]):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pgqueue_schedule (name, handler, cron, next_fire_at)"
            " SELECT 's' || n, 'h', '@daily', clock_timestamp() + n * interval '1 minute'"
            " FROM generate_series(1, 5000) AS n"
        )
        cursor.execute("ANALYZE pgqueue_schedule")
    plans = record_plans(connection.connection)
    assert due_schedules("default") == []
    scans = [plan["Plan"]["Plans"][0] for plan in plans if "pgqueue_schedule" in plan["Query Text"]]
    assert len(scans) == 2
    for scan in scans:
        assert scan.get("Rows Removed by Filter", 0) == 0, scan
