"""Worker processes under a supervisor: their messages when they are killed, stopped or stuck."""

from __future__ import annotations

import os
import pty
import re
import signal
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from django.core.management import call_command
from django.utils import timezone

from django_pgqueue.models import DeadLetter, Message, Worker
from django_pgqueue.worker.process import ProcessSlot
from tests.support.processes import process_exists
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, mark, script, scripts, where

Spawn = Callable[..., Process]


def pids() -> list[int]:
    """Return the process ids of the children that are at work, as their rows say."""
    return sorted(Worker.objects.filter(state="running").values_list("pid", flat=True))


def test_two_processes_drain_a_backlog_and_all_end(spawn: Spawn) -> None:
    messages = scripts(100, ["effect"], ["sleep", 0.01])
    worker = spawn("--drain", processes=2)
    assert worker.wait() == 0
    assert sorted(effects()) == [(message, 1) for message in messages]
    assert worker.log.count(" completed, 0 deferred") == 2


def test_a_handler_that_does_not_end_in_time_is_retried_at_once_and_keeps_its_attempt(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "never"], backoff=timedelta(hours=1))
    worker = spawn("--shutdown-timeout", "0.3", "--lease", "600", processes=1)
    eventually(lambda: effects())
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 1
    assert where(message) in ("live: scheduled", "live: ready")
    stopped = Message.objects.get(id=message)
    # Its effects may be there: it has begun. It is due at once, since it is not to blame.
    assert stopped.attempts == 0
    assert stopped.errors[0]["type"] == "WorkerStopped"
    assert stopped.errors[0]["interruption"] == 1
    assert stopped.dequeue_at <= datetime.fromisoformat(stopped.errors[0]["at"])


def test_many_deploys_do_not_end_a_long_message_and_a_crash_still_counts(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "go"], max_attempts=2)

    def run_until_started(count: int) -> Process:
        worker = spawn("--shutdown-timeout", "0.1", "--lease", "600", processes=1)
        eventually(lambda: len(effects()) == count)
        return worker

    for deploy in range(1, 4):
        worker = run_until_started(deploy)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 1
        assert "its attempt does not count" in worker.log
    assert Message.objects.get(id=message).attempts == 0
    # The process dies by itself, which may be the fault of the message.
    worker = run_until_started(4)
    [child] = pids()
    os.kill(child, signal.SIGKILL)
    eventually(lambda: len(effects()) == 5)
    assert Message.objects.get(id=message).attempts == 2
    mark("go")
    eventually(lambda: where(message) == "completed")


def test_a_message_that_deploys_interrupt_too_often_becomes_a_dead_letter(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "never"], max_attempts=9)
    for deploy in (1, 2):
        worker = spawn("--shutdown-timeout", "0.1", "--lease", "600", processes=1, MAX_INTERRUPTIONS="2")
        eventually(lambda deploy=deploy: len(effects()) == deploy)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 1
    assert where(message) == "dead: stopped"
    assert "It was interrupted MAX_INTERRUPTIONS times" in worker.log


def test_a_second_signal_ends_all_processes_at_once(spawn: Spawn) -> None:
    message = script(["effect"], ["await", "never"])
    worker = spawn("--lease", "600", processes=2)
    eventually(lambda: effects())
    children = eventually(lambda: len(pids()) == 2 and pids())
    worker.signal(signal.SIGTERM)
    eventually(lambda: "stopping" in worker.log)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 128 + signal.SIGTERM
    eventually(lambda: all(not process_exists(child) for child in children))
    assert where(message) == "live: leased"


def test_a_handler_that_crashes_the_process_ends_as_poison_and_the_others_go_on(spawn: Spawn) -> None:
    poison = script(["segfault"], max_attempts=2)
    others = scripts(100, ["effect"], ["sleep", 0.01], max_attempts=50)
    worker = spawn("--lease", "600", "--concurrency", "2", processes=2)
    eventually(lambda: where(poison) == "dead: poison")
    eventually(lambda: not Message.objects.exists())
    assert {where(message) for message in others} == {"completed"}
    [first, second] = DeadLetter.objects.get(id=poison).errors
    assert "SIGSEGV" in first["message"]
    assert "SIGSEGV" in second["message"]
    # The place of the crash, for a reader of the log.
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
        eventually(lambda: worker.log.count("the next one starts in") >= 3)
        assert "the settings are broken" in worker.log
        # 0.5 s, 1 s, 2 s: no more than so many starts.
        assert 3 <= len(re.findall(r"process \d+ started", worker.log)) <= 2 + 5
        broken.unlink()
        message = script(["effect"])
        eventually(lambda: where(message) == "completed")
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
    slot = ProcessSlot(spawn=lambda: tries.append(None), stop=print)
    slot.fill(may_replace=True)
    slot.fill(may_replace=True)
    # Not at once.
    assert len(tries) == 1
    assert slot.failures == 1
    eventually(lambda: slot.fill(may_replace=True) or len(tries) == 2)


@pytest.mark.parametrize("ready", [False, True])
def test_a_second_change_kills_a_successor_only_if_it_is_not_ready(ready: bool) -> None:
    successor, stopped = MagicMock(ready=ready), []
    slot = ProcessSlot(spawn=lambda: None, stop=lambda child, reason: stopped.append(child))
    slot.holder, slot.successor = MagicMock(), successor
    slot.replace("SIGHUP")
    assert stopped == [successor]
    assert successor.kill_now.called is not ready


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
