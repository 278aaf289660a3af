"""How worker processes end: cleanly, by force, and by kill -9."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from django_pgqueue.models import Message, Worker
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, mark, marks, script, scripts, where

Spawn = Callable[..., Process]


def test_drain_ends_by_itself_with_a_line_of_totals(spawn: Spawn) -> None:
    scripts(50, ["effect"])
    worker = spawn("--drain")
    assert worker.wait() == 0
    assert len(effects()) == 50
    assert "serves default: concurrency 4" in worker.log
    assert "50 completed, 0 deferred, 0 retried, 0 dead lettered, 0 cancelled, 0 given back, 0 lease lost" in worker.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("processes", [0, 1])
def test_a_signal_finishes_what_runs_and_gives_back_what_waits(spawn: Spawn, processes: int, number: int) -> None:
    # One dequeue takes all; one slot runs the first, the others wait in memory.
    running, *waiting = scripts(6, ["effect"], ["await", "go"], ["effect"])
    worker = spawn("--concurrency", "1", "--once", "--batch", "6", processes=processes)
    eventually(lambda: effects())
    assert Message.objects.filter(status=Message.Status.LEASED).count() == 6
    worker.signal(number)
    eventually(lambda: Message.objects.filter(status=Message.Status.READY).count() == 5)
    # Their attempt does not count, and the one that runs is still ours.
    assert set(Message.objects.filter(id__in=waiting).values_list("attempts", flat=True)) == {0}
    assert where(running) == "live: leased"
    mark("go")
    assert worker.wait() == 0
    assert where(running) == "completed"
    assert effects() == [(running, 1), (running, 1)]
    assert "gave 5 message(s) back" in worker.log
    assert f"stopping: {signal.Signals(number).name}" in worker.log
    assert not Worker.objects.exists()


@pytest.mark.parametrize("processes", [0, 1])
def test_leases_live_until_the_last_handler_has_ended(spawn: Spawn, processes: int) -> None:
    message = script(["effect"], ["await", "go"])
    worker = spawn("--lease", "2", "--concurrency", "1", processes=processes)
    eventually(lambda: effects())
    worker.signal(signal.SIGTERM)
    eventually(lambda: "stopping" in worker.log)
    before = Message.objects.get(id=message).lease_expires_at
    eventually(lambda: (Message.objects.get(id=message).lease_expires_at - before).total_seconds() > 1)
    mark("go")
    assert worker.wait() == 0
    assert where(message) == "completed"


def test_a_handler_that_does_not_end_is_left_to_its_lease(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "never"])
    worker = spawn("--shutdown-timeout", "0.3")
    eventually(lambda: effects())
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 1
    assert "1 handler(s) did not end" in worker.log
    assert where(message) == "live: leased"


def test_a_second_signal_ends_it_at_once(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "never"])
    worker = spawn()
    eventually(lambda: effects())
    worker.signal(signal.SIGTERM)
    eventually(lambda: "stopping" in worker.log)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 128 + signal.SIGTERM
    assert "SIGTERM again" in worker.log
    assert where(message) == "live: leased"


def test_a_worker_has_a_row_as_long_as_it_runs(spawn: Spawn) -> None:
    worker = spawn("--queue", "a", "--queue", "b", "--concurrency", "3")
    row = eventually(lambda: Worker.objects.first())
    assert (row.pid, row.queues, row.concurrency) == (worker.popen.pid, ["a", "b"], 3)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert not Worker.objects.exists()


@pytest.mark.parametrize("handler", ["scripted", "scripted.atomic", "scripted.batch"])
def test_the_messages_of_a_killed_worker_are_done_by_another(spawn: Spawn, handler: str) -> None:
    messages = scripts(20, ["effect"], handler=handler)
    killer = script(["mark", "running"], ["first", ["kill"]], ["effect"], handler=handler)
    messages += [killer, *scripts(20, ["effect"], handler=handler)]
    assert spawn("--lease", "1").wait() == -signal.SIGKILL
    assert marks("running") == 1
    left = Message.objects.filter(status=Message.Status.LEASED).count()
    assert left >= 1
    sql("UPDATE pgqueue_message SET backoff = '1 microsecond'")
    spawn("--lease", "1")
    eventually(lambda: not Message.objects.exists())
    assert {where(message) for message in messages} == {"completed"}
    done = [message for message, _ in effects()]
    assert set(done) == set(messages)
    if handler != "scripted":
        assert len(done) == len(messages), "atomic effects are exactly once"


def test_a_message_that_kills_each_worker_becomes_poison(spawn: Spawn) -> None:
    message = script(["mark", "running"], ["kill"], max_attempts=2)
    for attempt in (1, 2):
        assert spawn("--lease", "0.5", "--poll-interval", "0.1").wait() == -signal.SIGKILL
        assert marks("running") == attempt
    spawn("--lease", "0.5")
    eventually(lambda: where(message) == "dead: poison")


def test_a_worker_that_crashes_inside_says_so_and_ends(start: Callable[..., Any]) -> None:
    worker = start(queues=("x" * 300,), batch=20_000, once=True)
    worker.join()
    assert not worker.clean
