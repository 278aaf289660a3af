"""Worker processes under a supervisor: what becomes of their messages when they are killed, stopped or stuck."""

from __future__ import annotations

import math
import os
import pty
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.utils import timezone

from django_pgqueue import dequeue
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message, Worker
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.lease_keeper import LeaseKeeper
from django_pgqueue.worker.supervisor.deaths import Undertaker, after_death
from django_pgqueue.worker.supervisor.post import Post
from django_pgqueue.worker.supervisor.restarts import Restarts
from django_pgqueue.worker.supervisor.watch import Verdict, judge
from tests.worker.conftest import Process, effects, eventually, mark, marks, script, scripts, where

Spawn = Callable[..., Process]


def pids() -> list[int]:
    """Of the children that are at work, as their rows say."""
    return sorted(Worker.objects.filter(state="running").values_list("pid", flat=True))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_two_processes_drain_a_backlog_and_all_end(spawn: Spawn) -> None:
    messages = scripts(100, ["effect"], ["sleep", 0.01])
    worker = spawn("--drain", processes=2)
    assert worker.wait() == 0
    assert sorted(effects()) == [(message, 1) for message in messages]
    assert worker.log.count(" completed, 0 deferred") == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_processes_and_nothing_is_lost(spawn: Spawn, number: int) -> None:
    running, *waiting = scripts(6, ["effect"], ["await", "go"], ["effect"])
    worker = spawn("--concurrency", "1", "--once", "--batch", "6", processes=1)
    eventually(lambda: effects())
    worker.signal(number)
    eventually(lambda: Message.objects.filter(status=Message.Status.READY).count() == 5)
    assert set(Message.objects.filter(id__in=waiting).values_list("attempts", flat=True)) == {0}
    assert where(running) == "live: leased"
    mark("go")
    assert worker.wait() == 0
    assert where(running) == "completed"
    assert not Worker.objects.exists()


def test_leases_live_until_the_last_process_has_ended(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "go"])
    worker = spawn("--lease", "0.6", processes=1)
    eventually(lambda: effects())
    worker.signal(signal.SIGTERM)
    eventually(lambda: "stopping" in worker.log)
    before = Message.objects.get(id=message).lease_expires_at
    eventually(lambda: Message.objects.get(id=message).lease_expires_at > before + timedelta(seconds=1))
    mark("go")
    assert worker.wait() == 0
    assert where(message) == "completed"


def test_what_does_not_end_in_time_is_given_back_at_the_end(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "never"])
    worker = spawn("--shutdown-timeout", "0.3", "--lease", "600", processes=1)
    eventually(lambda: effects())
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 1
    assert where(message) == "live: ready"
    # To be stopped is no failure of its own.
    assert Message.objects.get(id=message).attempts == 0


def test_a_second_signal_ends_all_processes_at_once(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "never"])
    worker = spawn("--lease", "600", processes=2)
    eventually(lambda: effects())
    children = eventually(lambda: len(pids()) == 2 and pids())
    worker.signal(signal.SIGTERM)
    eventually(lambda: "stopping" in worker.log)
    worker.signal(signal.SIGTERM)
    assert worker.wait(5) == 128 + signal.SIGTERM
    eventually(lambda: all(gone(child) for child in children))
    assert where(message) == "live: leased"


def test_a_killed_child_is_replaced_and_its_messages_are_redelivered_at_once(spawn: Spawn) -> None:
    running = script(["effect"], ["first", ["await", "never"]])
    spawned = spawn("--lease", "600", "--concurrency", "1", processes=1)
    eventually(lambda: effects())
    [child] = eventually(pids)
    os.kill(child, signal.SIGKILL)
    eventually(lambda: where(running) == "completed")
    assert effects() == [(running, 1), (running, 2)]
    [error] = ArchivedMessage.objects.get(id=running).errors
    assert error["type"] == "WorkerDied"
    assert "SIGKILL" in error["message"]
    assert "died: SIGKILL" in spawned.log
    eventually(lambda: pids() not in ([], [child]))


def test_messages_that_a_dead_process_had_not_started_keep_their_attempt(spawn: Spawn) -> None:
    script(["mark", "running"], ["await", "never"])
    waiting = scripts(5, ["effect"])
    spawn("--lease", "600", "--concurrency", "1", "--once", "--batch", "6", processes=1)
    eventually(lambda: marks("running"))
    [child] = eventually(pids)
    os.kill(child, signal.SIGKILL)
    eventually(lambda: Message.objects.filter(id__in=waiting, status=Message.Status.READY, attempts=0).count() == 5)


@pytest.mark.usefixtures("queue")
def test_what_a_killed_process_dequeued_at_its_very_end_is_found_too() -> None:
    message = script(["effect"])
    outage, settled = Outage("default", "test"), threading.Event()
    keeper = LeaseKeeper("default", timedelta(seconds=600), outage=outage, on_lost=print, crashed=print)
    undertaker = Undertaker("default", keeper=keeper, outage=outage, on_settled=settled.set, crashed=print)
    undertaker.put(after_death("ghost", running=frozenset(), end="SIGKILL"))
    undertaker.start()
    # Its session in the database goes on for a moment.
    assert [delivery.id for delivery in dequeue("default", worker="ghost")] == [message]
    assert settled.wait(30)
    assert undertaker.stop(30)
    assert where(message) == "live: ready"
    assert Message.objects.get(id=message).attempts == 0


@pytest.mark.parametrize("handler", ["scripted", "scripted.atomic"])
def test_nothing_is_lost_when_processes_are_killed_under_load(spawn: Spawn, handler: str) -> None:
    messages = scripts(600, ["effect"], ["sleep", 0.002], handler=handler, max_attempts=50)
    spawn("--lease", "600", processes=2)
    for done in (100, 250, 400):
        eventually(lambda done=done: ArchivedMessage.objects.count() > done)
        # The row of one that was killed before may still be there.
        os.kill(eventually(lambda: [pid for pid in pids() if not gone(pid)])[0], signal.SIGKILL)
    eventually(lambda: not Message.objects.exists(), timeout=60)
    assert {where(message) for message in messages} == {"completed"}
    done = [message for message, _ in effects()]
    assert set(done) == set(messages)
    if handler == "scripted.atomic":
        assert len(done) == len(messages), "atomic effects are exactly once"


def test_children_of_a_killed_supervisor_end_what_they_run_and_go(spawn: Spawn) -> None:
    running, waiting = script(["effect"], ["await", "go"]), script(["effect"])
    worker = spawn("--lease", "20", "--concurrency", "1", "--once", "--batch", "2", processes=1)
    eventually(lambda: effects())
    [child] = eventually(pids)
    worker.signal(signal.SIGKILL)
    eventually(lambda: where(waiting) == "live: ready")
    assert not gone(child)
    mark("go")
    eventually(lambda: where(running) == "completed")
    eventually(lambda: gone(child))


def test_children_of_a_killed_supervisor_are_gone_before_their_leases(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "never"])
    worker = spawn("--lease", "3", processes=1)
    eventually(lambda: effects())
    [child] = eventually(pids)
    worker.signal(signal.SIGKILL)
    eventually(lambda: gone(child))
    assert where(message) == "live: leased"


def test_a_handler_that_holds_the_gil_keeps_its_lease(spawn: Spawn) -> None:
    message = script(["mark", "running"], ["hold the GIL", 4], ["effect"])
    spawn("--lease", "1", processes=1)
    another = spawn("--lease", "1", processes=1)
    eventually(lambda: where(message) == "completed")
    assert effects() == [(message, 1)]
    assert marks("running") == 1
    assert "lease" not in another.log.replace("lease 0:00:01", "")


def test_what_waits_behind_a_handler_that_holds_the_gil_is_given_to_others(spawn: Spawn) -> None:
    script(["mark", "running"], ["hold the GIL", 30])
    waiting = scripts(3, ["effect"])
    stuck = spawn("--lease", "1", "--concurrency", "1", "--once", "--batch", "4", processes=1)
    eventually(lambda: marks("running"))
    spawn("--lease", "1", processes=1)
    eventually(lambda: len(effects()) == 3)
    assert {where(message) for message in waiting} <= {"completed", "live: leased"}
    assert "giving back 3 message(s)" in stuck.log


@pytest.mark.parametrize("stuck", [["hold the GIL", 60], ["stop"]], ids=str)
def test_a_process_that_cannot_even_give_up_what_is_overdue_is_killed(spawn: Spawn, stuck: list[object]) -> None:
    innocent = script(["mark", "running"], ["first", ["await", "never"]])
    worker = spawn("--lease", "600", processes=1)
    eventually(lambda: marks("running"))
    guilty = script(["first", stuck], ["effect"], handler="scripted.limited")
    eventually(lambda: where(guilty) == "completed", timeout=60)
    [error] = ArchivedMessage.objects.get(id=guilty).errors
    assert error["type"] == "HandlerTimeout"
    assert f"past the deadline of #{guilty}" in error["message"]
    # It was not its fault.
    eventually(lambda: marks("running") == 2)
    assert Message.objects.get(id=innocent).attempts == 1
    assert "killing process" in worker.log


def test_a_process_that_is_stopped_while_it_runs_nothing_is_replaced() -> None:
    """In less than the minute that it takes: by what is known of the child."""
    child = SimpleNamespace(board=Board(), end_by=math.inf, ready=True, heard_at=100.0)
    assert judge(child, 160.0, grace=5) is None
    assert judge(child, 160.1, grace=5) == Verdict("it says nothing for 60 s, and runs nothing")
    child.board.begin([SimpleNamespace(id=7)], deadline=190.0)
    assert judge(child, 200.0, grace=5) is None
    assert judge(child, 200.1, grace=5) == Verdict("it runs past the deadline of #7", frozenset({7}))


def test_a_process_that_does_not_start_or_stop_is_killed() -> None:
    starting = SimpleNamespace(board=Board(), end_by=math.inf, ready=False, started_at=100.0)
    assert judge(starting, 220.0, grace=5) is None
    assert judge(starting, 220.1, grace=5) == Verdict("it was not ready after 120 s")
    stopping = SimpleNamespace(board=Board(), end_by=100.0, ready=True, heard_at=100.0, stop_reason="SIGTERM")
    assert judge(stopping, 100.0, grace=5) is None
    assert judge(stopping, 100.1, grace=5) == Verdict("it did not stop in time (SIGTERM)")


def test_pauses_between_starts_grow_as_the_deaths_need_it() -> None:
    loads_nothing, is_killed = Restarts(), Restarts()
    starts = [loads_nothing.delay(lived=1, was_ready=False) for _ in range(8)]
    # The last two are both the longest, but for the jitter.
    assert starts[:-1] == sorted(starts[:-1])
    assert 0.4 <= starts[0] <= 0.5
    assert 24 <= starts[-1] <= 30
    works = [is_killed.delay(lived=1, was_ready=True) for _ in range(8)]
    assert works[0] == 0
    assert 0.8 <= works[-1] <= 1
    assert is_killed.delay(lived=61, was_ready=True) == 0


def test_a_handler_that_crashes_the_process_ends_as_poison_and_the_others_go_on(spawn: Spawn) -> None:
    poison = script(["segfault"], max_attempts=2)
    others = scripts(100, ["effect"], ["sleep", 0.01], max_attempts=50)
    worker = spawn("--lease", "600", "--concurrency", "2", processes=2)
    eventually(lambda: where(poison) == "dead: poison", timeout=30)
    eventually(lambda: not Message.objects.exists(), timeout=30)
    assert {where(message) for message in others} == {"completed"}
    [first, second] = DeadLetter.objects.get(id=poison).errors
    assert "SIGSEGV" in first["message"]
    assert "SIGSEGV" in second["message"]
    # Where it crashed, for whoever reads the log.
    assert "Fatal Python error: Segmentation fault" in worker.log
    assert "string_at" in worker.log


def test_a_process_whose_code_does_not_load_is_started_again_more_and_more_seldom(
    queue: None, environment: dict[str, str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    environment = {**environment, "BROKEN": str(broken)}
    worker = Process(environment, processes=1)
    try:
        [child] = eventually(pids)
        broken.touch()
        os.kill(child, signal.SIGKILL)
        eventually(lambda: worker.log.count("the next process starts in") >= 3, timeout=30)
        assert "the settings are broken" in worker.log
        # 0.5 s, 1 s, 2 s: no more than so many starts.
        assert worker.log.count("started") <= 2 + 5
        broken.unlink()
        message = script(["effect"])
        eventually(lambda: where(message) == "completed", timeout=30)
    finally:
        worker.close()


def test_once_gives_up_when_its_process_dies(spawn: Spawn) -> None:
    script(["segfault"])
    assert spawn("--once", processes=1).wait() == 1


def test_the_rows_say_what_the_processes_do(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "go"])
    worker = spawn("--queue", "default", "--concurrency", "3", processes=2)
    busy = eventually(lambda: Worker.objects.exclude(running=[]).first())
    assert [entry["id"] for entry in busy.running] == [message]
    rows = eventually(lambda: Worker.objects.filter(state="running").count() == 2 and Worker.objects.all())
    assert {row.pid for row in rows} == set(worker.children)
    assert {row.supervisor.split(":")[1] for row in rows} == {str(worker.popen.pid)}
    assert {row.concurrency for row in rows} == {3}
    mark("go")
    eventually(lambda: Worker.objects.filter(totals__completed=1).exists())
    assert all(row.memory_bytes > 1_000_000 for row in Worker.objects.exclude(totals={}))
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert not Worker.objects.exists()


@pytest.mark.parametrize("processes", [0, 1])
def test_a_worker_that_is_paused_in_the_database_takes_nothing_new(spawn: Spawn, processes: int) -> None:
    worker = spawn(processes=processes)
    eventually(lambda: Worker.objects.filter(state="running").exists())
    Worker.objects.update(paused_at=timezone.now())
    eventually(lambda: "is paused" in worker.log)
    message = script(["effect"])
    time.sleep(0.5)
    assert where(message) == "live: ready"
    Worker.objects.update(paused_at=None)
    eventually(lambda: where(message) == "completed")


def test_a_process_that_the_system_does_not_start_is_tried_again() -> None:
    tries: list[None] = []
    post = Post(spawn=lambda: tries.append(None), stop=print)
    post.fill(may_replace=True)
    post.fill(may_replace=True)
    # Not at once.
    assert len(tries) == 1
    assert post.failures == 1
    eventually(lambda: post.fill(may_replace=True) or len(tries) == 2)


def test_a_terminal_that_is_closed_ends_the_worker(queue: None, environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    worker = Process(environment, processes=1, terminal=theirs)
    os.close(theirs)
    try:
        eventually(pids)
        os.close(ours)
        assert worker.wait() == 0
        assert "stopping: the terminal is gone" in worker.log
    finally:
        worker.close()


@pytest.mark.usefixtures("queue")
def test_processes_that_would_work_on_another_database_refuse() -> None:
    message = script(["effect"])
    # The settings of this process were changed: the tests have a database of their own.
    with pytest.raises(SystemExit) as ended:
        call_command("runqueueworker", "--drain", "--no-reload", skip_checks=True)
    assert ended.value.code == 1
    assert where(message) == "live: ready"
