"""Processes that live and report, and get nothing done: they are replaced, and their messages complete."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from django_pgqueue.worker.board import Board
from django_pgqueue.worker.lease_keeper import HeldLease
from django_pgqueue.worker.watch import Stalls
from tests.support.waiting import eventually
from tests.worker.conftest import mark, marks, script, scripts, where
from tests.worker.test_supervisor import Spawn, pids


def problems(file: Path) -> str:
    return "; ".join(json.loads(file.read_text())["problems"]) if file.exists() else ""


def test_a_process_without_file_descriptors_is_replaced(spawn: Spawn, tmp_path: Path) -> None:
    script(["exhaust"], max_attempts=1)
    good = scripts(10, ["effect"])
    file = tmp_path / "heartbeat"
    worker = spawn("--lease", "1", "--concurrency", "1", "--heartbeat-file", str(file), processes=1)
    eventually(lambda: "process " in problems(file) and "ready" not in problems(file), seconds=60)
    eventually(lambda: {where(message) for message in good} == {"completed"}, seconds=60)
    assert "makes no progress" in worker.log
    eventually(lambda: not problems(file))


def test_a_process_whose_completer_waits_for_a_leaked_lock_is_replaced(spawn: Spawn) -> None:
    script(["first", ["leak a lock"]], ["complete"])
    worker = spawn("--lease", "1", "--concurrency", "1", processes=1)
    script(["first", ["sleep", 1], ["fail", "logged"]], ["complete"])
    good = scripts(5, ["sleep", 0.1], ["effect"])
    eventually(lambda: {where(message) for message in good} == {"completed"}, seconds=90)
    assert "it has not written down" in worker.log


def test_a_process_whose_pipe_to_the_supervisor_is_full_is_replaced(spawn: Spawn, tmp_path: Path) -> None:
    script(["mark", "full"], ["fill the link"])
    file = tmp_path / "heartbeat"
    worker = spawn("--lease", "1", "--concurrency", "1", "--heartbeat-file", str(file), processes=1)
    eventually(lambda: marks("full"))
    good = scripts(10, ["effect"])
    # Its leases stand on the board, so it works until it is replaced.
    eventually(lambda: {where(message) for message in good} == {"completed"})
    eventually(lambda: "process " in problems(file) and "ready" not in problems(file), seconds=60)
    eventually(lambda: "makes no progress" in worker.log, seconds=60)
    eventually(lambda: not problems(file))


def test_a_process_that_can_start_no_thread_in_place_of_one_that_hangs_is_replaced(
    spawn: Spawn, tmp_path: Path
) -> None:
    script(["mark", "exhausted"], ["exhaust threads"])
    file, broken = tmp_path / "heartbeat", tmp_path / "broken"
    worker = spawn(
        "--lease", "1", "--concurrency", "1", "--heartbeat-file", str(file), processes=1, BROKEN=str(broken)
    )  # fmt: skip
    eventually(lambda: marks("exhausted"))
    # It asks to be replaced, and its successor does not start either.
    broken.touch()
    hangs = script(["sleep", 3600], handler="scripted.limited", max_attempts=1)
    good = scripts(10, ["effect"])
    eventually(lambda: "it has not started" in problems(file), seconds=60)
    eventually(lambda: "makes no progress" in worker.log, seconds=60)
    eventually(lambda: "1 of 1 processes not ready" in problems(file), seconds=60)
    broken.unlink()
    eventually(lambda: {where(message) for message in good} == {"completed"}, seconds=60)
    assert where(hangs) == "dead: timed_out"
    assert "can't start new thread" in worker.log
    assert "crashed" not in worker.log
    eventually(lambda: not problems(file))


def test_a_process_that_can_start_no_thread_makes_way_for_the_next_and_settles(spawn: Spawn) -> None:
    script(["mark", "exhausted"], ["exhaust threads"])
    worker = spawn("--lease", "1", "--concurrency", "2", processes=1)
    eventually(lambda: marks("exhausted"))
    # One slot is busy, and the other hangs: the rest waits in the process.
    long = script(["mark", "long"], ["await", "go"])
    hangs = script(["sleep", 3600], handler="scripted.limited", max_attempts=1)
    waiting = scripts(5, ["effect"])
    eventually(lambda: {where(message) for message in waiting} == {"completed"})
    mark("go")
    eventually(lambda: where(long) == "completed")
    assert marks("long") == 1
    assert where(hangs) == "dead: timed_out"
    assert "that were not started" in worker.log
    assert "Traceback" not in worker.log


def test_a_process_that_can_start_no_thread_at_its_start_is_replaced(spawn: Spawn, tmp_path: Path) -> None:
    file, threadless = tmp_path / "heartbeat", tmp_path / "threadless"
    worker = spawn("--heartbeat-file", str(file), processes=1, THREADLESS=str(threadless))
    [child] = eventually(pids)
    threadless.touch()
    os.kill(child, signal.SIGKILL)
    eventually(lambda: worker.log.count("can't start new thread") >= 2, seconds=60)
    assert "1 of 1 processes not ready" in problems(file)
    threadless.unlink()
    good = scripts(10, ["effect"])
    eventually(lambda: {where(message) for message in good} == {"completed"}, seconds=60)
    eventually(lambda: not problems(file))


class Clock:
    """It stands still while the test runs, however slow the machine is; only ``now`` moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._began = time.monotonic()

    def __call__(self) -> float:
        return self._began + self.now


def child(**changes: Any) -> Any:
    fields = {
        "name": "a",
        "pid": 7,
        "keys": {},
        "stop_reason": "",
        "stall": "",
        "stalled": "",
        "database_error": "",
        "misfit": False,
    }
    fields |= {"state": "running", "heard_at": math.inf}
    return SimpleNamespace(board=Board(), database_error_at=0.0, ran_at=0.0, **{**fields, **changes})


def held(*messages: int) -> dict[HeldLease, float]:
    return {HeldLease(message, uuid4(), "a"): time.monotonic() for message in messages}


def watch(clock: Clock, stalls: Stalls, seconds: float) -> None:
    """Look every second and a half, as the supervisor does while the database answers."""
    until = clock.now + seconds
    while clock.now < until:
        clock.now += 1.5
        stalls.run_once()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("state", ["waits to start", "waits for its settlement", "the database fails", "says nothing"])
def test_a_process_without_progress_for_three_leases_is_replaced_and_shown_before(clock: Clock, state: str) -> None:
    delivery, stalled = SimpleNamespace(id=1), child()
    if state == "waits for its settlement":
        stalled.board.begin([delivery])
        stalled.board.end([delivery])
    if state == "the database fails":
        stalled.database_error, stalled.database_error_at = "no more files", time.monotonic()
    if state == "says nothing":
        stalled.heard_at = time.monotonic()
    leases = held(1) if state == "waits to start" else {}
    stalls = Stalls("default", timedelta(seconds=10), children=lambda: [stalled], leases=lambda: leases, clock=clock)
    watch(clock, stalls, 9)
    assert (stalled.stall, stalled.stalled) == ("", "")
    watch(clock, stalls, 10)
    assert stalled.stall
    assert not stalled.stalled
    watch(clock, stalls, 15)
    assert stalled.stalled


@pytest.mark.usefixtures("queue")
def test_a_right_that_is_missing_is_shown_at_once_and_replaces_no_process(clock: Clock) -> None:
    """A new process would lack it, too, and each replacement would use up an attempt."""
    lacking = child(misfit=True, database_error="permission denied")
    lacking.database_error_at = time.monotonic()
    leases = held(1)
    stalls = Stalls("default", timedelta(seconds=10), children=lambda: [lacking], leases=lambda: leases, clock=clock)
    watch(clock, stalls, 2)
    assert "permission denied" in lacking.stall
    watch(clock, stalls, 3600)
    assert not lacking.stalled


@pytest.mark.usefixtures("queue")
def test_a_long_handler_is_progress_also_for_what_waits_behind_it(clock: Clock) -> None:
    busy = child(heard_at=time.monotonic())
    running = SimpleNamespace(id=1)
    busy.board.begin([running])
    leases = held(1, 2)
    stalls = Stalls("default", timedelta(seconds=10), children=lambda: [busy], leases=lambda: leases, clock=clock)
    watch(clock, stalls, 3600)
    assert (busy.stall, busy.stalled) == ("", "")


@pytest.mark.usefixtures("queue")
def test_the_time_in_which_the_database_did_not_answer_does_not_count(clock: Clock) -> None:
    waiting = child()
    leases = held(1)
    stalls = Stalls("default", timedelta(seconds=10), children=lambda: [waiting], leases=lambda: leases, clock=clock)
    watch(clock, stalls, 6)
    clock.now += 3600
    watch(clock, stalls, 9)
    assert (waiting.stall, waiting.stalled) == ("", "")


@pytest.mark.usefixtures("queue")
def test_a_lock_in_the_database_is_no_reason_to_replace_a_process(
    clock: Clock, pg_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    message = script(["effect"])
    waiting = child()
    stalls = Stalls("default", timedelta(seconds=10), children=lambda: [waiting], leases=lambda: held_1, clock=clock)
    held_1 = held(message)
    with psycopg.connect(pg_url) as locker, psycopg.connect(pg_url, autocommit=True) as waiter:
        locker.execute("LOCK TABLE pgqueue_archived_message")
        call = threading.Thread(target=waiter.execute, args=["SELECT count(*) FROM pgqueue_archived_message"])
        call.start()
        blocked = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        eventually(lambda: locker.execute(blocked, [waiter.info.backend_pid]).rowcount)
        watch(clock, stalls, 60)
        assert not waiting.stalled
        assert "wait for a lock" in caplog.text
        locker.rollback()
        call.join()
    watch(clock, stalls, 60)
    assert waiting.stalled
