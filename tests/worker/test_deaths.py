"""Processes that die, hang, or do not start, and the fate of their messages."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from django_pgqueue import dequeue
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.worker import numbers
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.lease_keeper import LeaseKeeper
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.process import ProcessSlot
from django_pgqueue.worker.reclaimer import LeaseReclaimer, after_death
from django_pgqueue.worker.watch import Verdict, find_verdict
from tests.support.processes import process_exists
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.worker.conftest import effects, make_runtime, mark, marks, script, scripts, where
from tests.worker.test_supervisor import Spawn, pids


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
    assert "The 1 message(s) that it had begun count an attempt" in spawned.log
    assert f"retried: scripted #{running} on default/default (attempt 1 of 5), WorkerDied: " in spawned.log
    assert "It is delivered again after its back-off." in spawned.log
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
def test_a_message_that_a_killed_process_dequeued_at_its_very_end_is_found_too() -> None:
    message = script(["effect"])
    shared, settled = make_runtime(WorkerOptions(using="default", name="test")), threading.Event()
    keeper = LeaseKeeper(shared, holders=list, on_lost=print, on_cancelled=print)
    reclaimer = LeaseReclaimer(shared, keeper, on_settled=settled.set)
    reclaimer.put(after_death("ghost", begun=(), end="SIGKILL"))
    reclaimer.start()
    # Its session in the database goes on for a moment.
    assert [delivery.id for delivery in dequeue("default", worker="ghost")] == [message]
    assert settled.wait(PATIENCE_SECONDS)
    assert reclaimer.stop(30)
    assert where(message) == "live: ready"
    assert Message.objects.get(id=message).attempts == 0


@pytest.mark.parametrize("handler", ["scripted", "scripted.atomic"])
def test_nothing_is_lost_when_processes_are_killed_under_load(spawn: Spawn, handler: str) -> None:
    messages = scripts(600, ["effect"], ["sleep", 0.002], handler=handler, max_attempts=50)
    spawn("--lease", "600", processes=2)
    for done in (100, 250, 400):
        eventually(lambda done=done: ArchivedMessage.objects.count() > done)
        # The row of one that was killed before may still be there.
        os.kill(eventually(lambda: [pid for pid in pids() if process_exists(pid)])[0], signal.SIGKILL)
    eventually(lambda: not Message.objects.exists())
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
    assert process_exists(child)
    mark("go")
    eventually(lambda: where(running) == "completed")
    eventually(lambda: not process_exists(child))


@pytest.mark.parametrize("before", [[], [["exhaust threads"]]], ids=str)
def test_children_of_a_killed_supervisor_are_gone_before_their_leases(spawn: Spawn, before: list[object]) -> None:
    message = script(*before, ["effect"], ["await", "never"])
    worker = spawn("--lease", "3", "--shutdown-timeout", "600", processes=1)
    eventually(lambda: effects())
    [child] = eventually(pids)
    worker.signal(signal.SIGKILL)
    eventually(lambda: not process_exists(child))
    assert where(message) == "live: leased"


def test_a_handler_that_holds_the_gil_keeps_its_lease(spawn: Spawn) -> None:
    message = script(["mark", "running"], ["hold the GIL", 6], ["effect"])
    spawn("--lease", "2", processes=1)
    another = spawn("--lease", "2", processes=1)
    eventually(lambda: where(message) == "completed")
    assert effects() == [(message, 1)]
    assert marks("running") == 1
    assert "lease" not in another.log.replace("lease 2 s", "")


def test_messages_behind_a_handler_that_holds_the_gil_are_given_to_others(spawn: Spawn) -> None:
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
    culprit = script(["first", stuck], ["effect"], handler="scripted.limited")
    eventually(lambda: where(culprit) == "completed")
    [error] = ArchivedMessage.objects.get(id=culprit).errors
    assert error["type"] == "HandlerTimeout"
    assert f"past the deadline of #{culprit}" in error["message"]
    # It was not its fault, and its effects may be there: it has begun.
    eventually(lambda: where(innocent) == "completed")
    [error] = ArchivedMessage.objects.get(id=innocent).errors
    assert error["type"] == "WorkerStopped"
    assert "killing process" in worker.log


def test_a_process_that_is_stopped_while_it_runs_nothing_is_replaced() -> None:
    """In less than the minute that it takes: by what is known of the child."""
    child = SimpleNamespace(board=Board(), end_by=math.inf, ready=True, heard_at=100.0)
    assert find_verdict(child, 160.0, grace=5) is None
    assert find_verdict(child, 160.1, grace=5) == Verdict("it says nothing for 60 s, and runs nothing")
    child.board.begin([SimpleNamespace(id=7)], deadline=190.0)
    assert find_verdict(child, 200.0, grace=5) is None
    assert find_verdict(child, 200.1, grace=5) == Verdict("it runs past the deadline of #7", frozenset({7}))


def test_a_process_that_does_not_start_or_stop_is_killed() -> None:
    starting = SimpleNamespace(board=Board(), end_by=math.inf, ready=False, started_at=100.0)
    assert find_verdict(starting, 220.0, grace=5) is None
    assert find_verdict(starting, 220.1, grace=5) == Verdict("it was not ready after 120 s")
    stopping = SimpleNamespace(board=Board(), end_by=100.0, ready=True, heard_at=100.0, stop_reason="SIGTERM")
    assert find_verdict(stopping, 100.0, grace=5) is None
    assert find_verdict(stopping, 100.1, grace=5) == Verdict("it did not stop in time (SIGTERM)")


def test_messages_that_kill_their_processes_do_not_end_a_drain(spawn: Spawn) -> None:
    poison = scripts(numbers.MOST_FAILED_STARTS + 2, ["kill"], max_attempts=1)
    last = script(["effect"], priority=-1)
    worker = spawn("--lease", "600", "--concurrency", "1", "--drain", processes=1)
    assert worker.wait() == 0
    assert {where(message) for message in poison} == {"dead: poison"}
    assert where(last) == "completed"


def test_pauses_between_starts_grow_as_the_deaths_need_it() -> None:
    def delay(slot: ProcessSlot, ran_seconds: float, *, ready: bool) -> float:
        return slot.vacate(SimpleNamespace(started_at=time.monotonic() - ran_seconds, ready=ready))

    loads_nothing, is_killed = (ProcessSlot(spawn=lambda: None, stop=print) for _ in range(2))
    starts = [delay(loads_nothing, 1, ready=False) for _ in range(8)]
    # The last two are both the longest, but for the jitter.
    assert starts[:-1] == sorted(starts[:-1])
    assert 0.4 <= starts[0] <= 0.5
    assert 24 <= starts[-1] <= 30
    works = [delay(is_killed, 1, ready=True) for _ in range(8)]
    assert works[0] == 0
    assert 0.8 <= works[-1] <= 1
    assert delay(is_killed, 61, ready=True) == 0
