"""Processes that make way for fresh ones: by what they did, by a signal, by a changed file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from django_pgqueue import enqueue
from django_pgqueue.doctor import examine
from django_pgqueue.models import Message, Schedule, Worker
from django_pgqueue.worker.link import Link
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.worker import QueueWorker
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, mark, marks, script, scripts, where
from tests.worker.scripted import handlers as scripted

Spawn = Callable[..., Process]


def pids() -> set[int]:
    return set(Worker.objects.filter(state="running").values_list("pid", flat=True))


def two_others(than: set[int]) -> set[int]:
    """Return the processes at work, from one look, if there are two and none is of ``than``; otherwise nothing.

    The supervisor writes a row in a statement of its own: two looks can see one process stop and the next not begin.
    """
    seen = pids()
    return seen if len(seen) == 2 and not seen & than else set()


@pytest.mark.parametrize(
    "option", [["--max-messages", "10"], ["--max-age", "0.5"], ["--max-memory", "1"]], ids=lambda option: option[0]
)
def test_a_process_that_has_done_enough_is_replaced(spawn: Spawn, option: list[str]) -> None:
    first = scripts(20, ["effect"])
    worker = spawn(*option, processes=1)
    eventually(lambda: worker.log.count("is to be replaced") >= 1)
    eventually(lambda: worker.log.count("ended: exit status 0") >= 1)
    second = scripts(20, ["effect"])
    eventually(lambda: not Message.objects.exists())
    assert sorted(effects()) == [(message, 1) for message in first + second]
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_wish_to_be_replaced_that_the_link_has_no_room_for_is_sent_with_the_next_report() -> None:
    supervisor, fd = Link.pair()
    link = Link(fd)
    worker = QueueWorker(WorkerOptions(using="default"), link=link)
    filled = 0
    while link.has_room():
        link.send("full")
        filled += 1
    worker.recycle("it is too old")
    assert [supervisor.receive() for _ in range(filled)] == [("full",)] * filled
    worker._supervisor.report()
    [what, *_, why] = supervisor.receive()
    assert (what, why) == ("report", "it is too old")
    supervisor.close()
    link.close()
    worker._loop._loop.close()  # it never runs


def test_a_worker_without_processes_ends_when_it_has_done_enough(spawn: Spawn) -> None:
    scripts(10, ["effect"])
    worker = spawn("--max-messages", "10")
    assert worker.wait() == 0
    assert "recycling: 10 messages are done" in worker.log


def test_a_hangup_replaces_all_processes_and_ends_what_they_run(spawn: Spawn) -> None:
    running = script(["mark", "running"], ["await", "go"])
    worker = spawn("--lease", "600", processes=2)
    old = eventually(lambda: two_others(than=set()))
    eventually(lambda: marks("running"))
    worker.signal(signal.SIGHUP)
    new = eventually(lambda: two_others(than=old))
    assert where(running) == "live: leased"
    message = script(["effect"])
    eventually(lambda: where(message) == "completed")
    mark("go")
    eventually(lambda: where(running) == "completed")
    assert marks("running") == 1
    eventually(lambda: set(worker.children) == new)


def test_new_code_that_does_not_load_leaves_the_old_processes_at_work(
    queue: None, environment: dict[str, str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    worker = Process({**environment, "BROKEN": str(broken)}, processes=1)
    try:
        old = eventually(pids)
        broken.touch()
        worker.signal(signal.SIGHUP)
        eventually(lambda: "died: exit status 1" in worker.log)
        message = script(["effect"])
        eventually(lambda: where(message) == "completed")
        assert pids() == old
        broken.unlink()
        # A reload that failed before is tried at once when an operator asks for it.
        worker.signal(signal.SIGHUP)
        eventually(lambda: pids() and not pids() & old)
    finally:
        worker.close()


def test_a_hangup_takes_over_new_schedules(queue: None, environment: dict[str, str], tmp_path: Path) -> None:
    new = tmp_path / "new"
    worker = Process({**environment, "SCHEDULED": str(new)}, processes=1)
    try:
        eventually(pids)
        assert not Schedule.objects.filter(name="new").exists()
        new.touch()
        worker.signal(signal.SIGHUP)
        eventually(lambda: Schedule.objects.filter(name="new", removed_at=None).exists())
    finally:
        worker.close()


def test_the_rows_have_the_handlers_that_the_processes_have_loaded(
    spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "released" / "handlers.py"
    module.parent.mkdir()
    write_handler(module, "released.old")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    worker = spawn("--queue", "default", processes=1, EXTRA_APPS="released")
    old = eventually(lambda: sql("SELECT pid, handlers FROM pgqueue_worker WHERE handlers ? 'released.old'"))
    write_handler(module, "released.new")
    worker.signal(signal.SIGHUP)
    new = eventually(lambda: sql("SELECT pid, handlers FROM pgqueue_worker WHERE handlers ? 'released.new'"))
    assert new[0][0] != old[0][0]
    eventually(lambda: worker.children == [new[0][0]])
    eventually(lambda: not sql("SELECT FROM pgqueue_worker WHERE handlers ? 'released.old'"))
    # The worker has seen the messages of both, and keeps that of the handler which is gone.
    enqueue("released.new")
    enqueue("released.old")
    [missing] = eventually(lambda: examine(only=["handlers"]).findings)
    assert (missing.code, missing.facts["shown"]) == ("unknown_handler", ["released.old"])


def write_handler(module: Path, name: str) -> None:
    module.write_text(f"from django_pgqueue import handler\n\n\n@handler({name!r})\ndef run(delivery): ...\n")


def test_a_file_that_changes_replaces_the_processes(spawn: Spawn) -> None:
    worker = spawn("--reload", processes=1)
    old = eventually(pids)
    # The first look of the file watch must be over: every second it looks again.
    eventually(lambda: touched_is_noticed(worker))
    assert "handlers.py has changed" in worker.log
    eventually(lambda: pids() and not pids() & old)


def touched_is_noticed(worker: Process) -> bool:
    os.utime(scripted.__file__)
    return "replacing all processes" in worker.log
