"""Workers fire what is due, whatever else they do."""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django_pgqueue.models import Schedule, ScheduleTick
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects


def every_second(name: str = "often", **values: Any) -> Schedule:
    return Schedule.objects.create(
        name=name, handler="scripted", payload=[["effect"]], every=timedelta(seconds=1), **values
    )


def test_a_worker_fires_schedules_and_handles_their_messages(start: Callable[..., Any]) -> None:
    every_second()
    start(maintenance=True)
    eventually(lambda: len(effects()) >= 2)
    made = {tick.message_id for tick in ScheduleTick.objects.all()}
    assert {message for message, _attempt in effects()} <= made


def test_a_schedule_that_is_switched_off_fires_no_more_while_the_worker_runs(start: Callable[..., Any]) -> None:
    every_second()
    start(maintenance=True)
    eventually(effects)
    Schedule.objects.update(enabled=False)
    every_second("another")
    fired = ScheduleTick.objects.filter(schedule="often").count()
    eventually(lambda: ScheduleTick.objects.filter(schedule="another").count() >= 2)
    assert ScheduleTick.objects.filter(schedule="often").count() <= fired + 1


def test_the_supervisor_fires_while_all_handlers_are_busy(spawn: Callable[..., Process]) -> None:
    every_second("busy", overlap=False)
    Schedule.objects.filter(name="busy").update(payload=[["effect"], ["await", "go"]])
    worker = spawn("--concurrency", "1", processes=1)
    eventually(effects)
    every_second()
    eventually(lambda: ScheduleTick.objects.filter(schedule="often", outcome="created").count() >= 2)
    assert len(effects()) == 1
    sql("INSERT INTO scripted_mark (name) VALUES ('go')")
    eventually(lambda: len(effects()) >= 3)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_two_workers_fire_each_tick_once(spawn: Callable[..., Process]) -> None:
    for n in range(10):
        every_second(f"s{n}")
    workers = [spawn() for _ in range(2)]
    eventually(lambda: ScheduleTick.objects.count() >= 40)
    for worker in workers:
        worker.signal(signal.SIGTERM)
    assert [worker.wait() for worker in workers] == [0, 0]
    [[made]] = sql("SELECT (SELECT count(*) FROM pgqueue_message) + (SELECT count(*) FROM pgqueue_archived_message)")
    assert made == ScheduleTick.objects.filter(outcome="created").count()
