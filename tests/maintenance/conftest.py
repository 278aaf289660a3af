"""Shared by the tests of maintenance: declarations that are forgotten afterwards, and time that passes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from django_pgqueue import channel_set, handlers, schedules
from django_pgqueue.models import Message, Schedule, ScheduleTick


@pytest.fixture(autouse=True)
def _as_before(db: None) -> Iterator[None]:
    """The default channel, none of the demo's schedules; what a test declares is forgotten."""
    channel_set(channel="default")
    Schedule.objects.all().delete()
    names, declared = handlers.names(), list(schedules._declared)
    schedules._declared.clear()
    yield
    schedules._declared[:] = declared
    for name in set(handlers.names()) - set(names):
        handlers.unregister(name)


def make(name: str = "nightly", **values: Any) -> Schedule:
    """A schedule made by hand, that was planned."""
    values = {"handler": "reports.make", "every": None if "cron" in values else timedelta(hours=1)} | values
    return Schedule.objects.create(name=name, **values)


def pass_time_of_schedules(**duration: float) -> None:
    """Moves what is planned into the past, instead of waiting."""
    Schedule.objects.update(next_fire_at=F("next_fire_at") - timedelta(**duration))
    ScheduleTick.objects.update(
        tick_at=F("tick_at") - timedelta(**duration), fired_at=F("fired_at") - timedelta(**duration)
    )


def plan(name: str, **ago: float) -> None:
    """The next tick of the schedule was due so long ago, by the database clock, to the second."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgqueue_schedule SET next_fire_at = date_trunc('second', clock_timestamp()) - %s WHERE name = %s",
            [timedelta(**ago), name],
        )


def made() -> list[dict[str, Any]]:
    """The headers of the messages that are there, oldest first."""
    return list(Message.objects.order_by("id").values_list("headers", flat=True))
