"""Running workers keep to shared limits: all of them together, in every queue, and after a kill."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django_pgqueue import channel_set, handler_pause, handler_resume, limit_set
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.worker.worker import QueueWorker
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, mark, marks, script, scripts, where

Start = Callable[..., QueueWorker]
Spawn = Callable[..., Process]

NEVER = timedelta(seconds=600)
# Less than NEVER: a worker that only polled would be later.
AT_ONCE_SECONDS = 60
RUN: list[list[Any]] = [["mark", "begin"], ["sleep", 0.02], ["mark", "end"]]


def most_at_once() -> int:
    """The most handlers that ran at the same time, by the moments at which they began and ended."""
    running = most = 0
    for (name,) in sql("SELECT name FROM scripted_mark WHERE name IN ('begin', 'end') ORDER BY at"):
        running += 1 if name == "begin" else -1
        most = max(most, running)
    assert running == 0
    return most


def completed() -> int:
    return ArchivedMessage.objects.filter(outcome="completed").count()


def test_two_processes_of_eight_slots_keep_to_a_limit_of_two_across_two_queues(spawn: Spawn) -> None:
    channel_set(channel="default", queue="mails")
    limit_set("stripe", max_concurrency=2, handlers=["scripted"])
    # The first ones name no limit: their handler has it.
    scripts(30, *RUN)
    scripts(30, *RUN, queue="mails", limits=["stripe"])

    for _ in range(2):
        spawn("--queue", "default", "--queue", "mails", "--concurrency", "8")

    eventually(lambda: completed() == 60)
    assert most_at_once() == 2
    assert not Message.objects.exists()


def test_a_free_place_is_used_at_once_by_the_worker_of_another_queue(start: Start) -> None:
    channel_set(channel="default", queue="mails")
    limit_set("stripe", max_concurrency=1)
    holder = script(["mark", "holds"], ["await", "go"], limits=["stripe"])
    start(listen="default", poll_interval=NEVER)
    eventually(lambda: marks("holds"))
    waiting = script(["effect"], queue="mails", limits=["stripe"])
    start(listen="default", poll_interval=NEVER, queues=("mails",))
    eventually(lambda: sql("SELECT count(*) FROM pgqueue_waiter")[0][0] >= 1)
    time.sleep(0.5)
    assert not effects()

    mark("go")

    eventually(lambda: where(waiting) == "completed", seconds=AT_ONCE_SECONDS)
    assert where(holder) == "completed"


def test_a_worker_that_is_killed_frees_its_places_when_its_leases_expire(spawn: Spawn) -> None:
    limit_set("stripe", max_concurrency=2)
    held = scripts(2, ["mark", "running"], ["first", ["await", "never"]], limits=["stripe"])
    first = spawn("--lease", "2", "--concurrency", "4")
    eventually(lambda: marks("running") == 2)
    others = scripts(10, ["effect"], limits=["stripe"])
    first.signal(signal.SIGKILL)
    first.wait()
    assert Message.objects.filter(status=Message.Status.LEASED).count() == 2

    spawn("--lease", "2", "--concurrency", "4")

    eventually(lambda: completed() == 12)
    assert dict(ArchivedMessage.objects.values_list("id", "attempts")) == {
        **dict.fromkeys(held, 2),
        **dict.fromkeys(others, 1),
    }


def test_a_paused_handler_begins_nothing_while_others_go_on(start: Start) -> None:
    start(concurrency=4, maintenance=True, listen="default")
    before = scripts(5, ["effect"])
    eventually(lambda: {where(each) for each in before} == {"completed"})

    handler_pause("scripted", reason="the provider is down")
    paused = scripts(20, ["effect"])
    others = scripts(20, ["effect"], handler="scripted.atomic")
    eventually(lambda: {where(each) for each in others} == {"completed"})
    assert len(effects()) == 25
    assert set(Message.objects.values_list("id", "attempts")) == {(each, 0) for each in paused}

    handler_resume("scripted")

    eventually(lambda: {where(each) for each in paused} == {"completed"})
    assert set(ArchivedMessage.objects.filter(id__in=paused).values_list("attempts", flat=True)) == {1}
