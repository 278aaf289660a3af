from __future__ import annotations

from datetime import timedelta

from django_pgqueue.lifecycle.schedules import schedule_prune
from django_pgqueue.maintenance.pruner import Pruner
from django_pgqueue.models import Schedule, ScheduleTick
from tests.support.moments import a_moment_of_the_database


def remember(name: str, **ago: float) -> None:
    moment = a_moment_of_the_database() - timedelta(**ago)
    ScheduleTick.objects.create(schedule=name, tick_at=moment, fired_at=moment, outcome="created")


def test_old_ticks_go(settings):
    remember("old", days=7, minutes=1)
    remember("young", days=6)
    assert schedule_prune() == 1
    assert ScheduleTick.objects.get().schedule == "young"

    settings.DJANGO_PGQUEUE = {"SCHEDULE_RETENTION": timedelta(days=5)}
    Pruner().run_once("default")
    assert not ScheduleTick.objects.exists()


def test_nothing_goes_without_a_retention(settings):
    settings.DJANGO_PGQUEUE = {"SCHEDULE_RETENTION": None}
    remember("ancient", days=4000)
    assert schedule_prune() == 0
    assert ScheduleTick.objects.count() == 1


def test_schedules_go_that_were_removed_from_code_long_ago():
    Schedule.objects.all().delete()
    now = a_moment_of_the_database()
    for name, removed_at in {
        "long ago": now - timedelta(days=8), "just now": now - timedelta(days=1), "there": None,
    }.items():  # fmt: skip
        Schedule.objects.create(
            name=name, handler="h", cron="@daily", declared_in="app.handlers", removed_at=removed_at
        )
    schedule_prune()
    assert set(Schedule.objects.values_list("name", flat=True)) == {"just now", "there"}
