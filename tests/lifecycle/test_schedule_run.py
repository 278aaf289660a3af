"""A schedule is run now, by a person or by code."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from django_pgqueue import channel_set, dequeue, schedule_run
from django_pgqueue.exceptions import ChannelNotFound, ScheduleNotFound
from django_pgqueue.models import Schedule, ScheduleTick
from tests.support.moments import a_moment_of_the_database
from tests.support.refusals import refused, rolled_back
from tests.support.sql import sql


@pytest.fixture(autouse=True)
def _none_of_the_demo(db: None) -> None:
    Schedule.objects.all().delete()


def make(**values: object) -> None:
    Schedule.objects.create(**{"name": "nightly", "handler": "reports.make", "cron": "30 2 * * *"} | values)


def test_a_run_makes_a_message_and_leaves_the_plan_alone():
    planned = a_moment_of_the_database() + timedelta(hours=2)
    make(payload={"all": True}, next_fire_at=planned)
    before = a_moment_of_the_database()
    first, second = schedule_run("nightly"), schedule_run("nightly")
    after = a_moment_of_the_database()

    assert (first.outcome, second.outcome) == ("created", "created")
    [delivery, _] = dequeue(limit=2)
    assert (delivery.id, delivery.handler, delivery.payload) == (first.id, "reports.make", {"all": True})
    assert delivery.headers["schedule"] == "nightly"
    assert before <= datetime.fromisoformat(delivery.headers["tick_at"]) <= after
    assert Schedule.objects.get().next_fire_at == planned
    ticks = ScheduleTick.objects.order_by("id").values_list("schedule", "by_hand", "outcome", "message_id")
    assert list(ticks) == [("nightly", True, "created", first.id), ("nightly", True, "created", second.id)]


def test_without_overlap_the_live_message_is_the_answer():
    make(overlap=False)
    first = schedule_run("nightly")
    assert schedule_run("nightly") == type(first)(first.id, "duplicate")


def test_a_full_channel_drops_by_its_policy():
    channel_set(channel="small", max_size=1, full_policy="drop")
    make(channel="small")
    assert schedule_run("nightly").created
    assert schedule_run("nightly").outcome == "dropped"
    assert list(ScheduleTick.objects.values_list("outcome", flat=True).order_by("id")) == ["created", "dropped"]


def test_a_schedule_that_cannot_run_says_why_and_leaves_nothing():
    make(channel="nowhere")
    with refused(ScheduleNotFound, 'no schedule "daily"'):
        schedule_run("daily")
    with refused(ChannelNotFound):
        schedule_run("nightly")
    assert not ScheduleTick.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_run_is_undone_with_the_callers_transaction():
    make()
    with rolled_back():
        schedule_run("nightly")
    assert not ScheduleTick.objects.exists()
    assert sql("SELECT 1 FROM pgqueue_message") == []
