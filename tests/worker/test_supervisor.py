"""Worker processes under a supervisor: what becomes of their messages when they are killed, stopped or stuck."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from django_pgqueue.models import Message, Worker
from tests.worker.conftest import Process, effects, eventually, mark, script, scripts, where

Spawn = Callable[..., Process]


def pids() -> list[int]:
    """Of the children, as their rows say."""
    return sorted(Worker.objects.filter(state="running").values_list("pid", flat=True))


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


def test_a_killed_child_is_replaced_and_its_messages_are_redelivered_at_once(spawn: Spawn) -> None:
    running = script(["effect"], ["first", ["await", "never"]])
    worker = spawn("--lease", "600", "--concurrency", "1", processes=1)
    eventually(lambda: effects())
    [child] = eventually(pids)
    os.kill(child, signal.SIGKILL)
    eventually(lambda: where(running) == "completed")
    assert effects() == [(running, 1), (running, 2)]
    assert "died: SIGKILL" in worker.log
    [another] = eventually(pids)
    assert another != child
