"""Handlers with a process of their own: it may be busy, hang or die, and costs its own message only."""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from django_pgqueue import Delivery, cancel, handlers
from django_pgqueue.models import DeadLetter
from tests.support.processes import process_exists
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, marks, result, script, scripts, where

Spawn = Callable[..., Process]
PROCESS = "scripted.process"
SHORT = "scripted.process.short"


def error(message: int) -> dict[str, str]:
    return DeadLetter.objects.get(id=message).errors[-1]


def test_outcomes_come_back_from_the_process(spawn: Spawn) -> None:
    done = script(["effect"], ["complete", {"answer": 42}], handler=PROCESS)
    later = script(["fresh", ["defer", 3600, {"page": 1}]], handler=PROCESS)
    kept = script(["raise", "defer", 3600], handler=PROCESS)
    refused = script(["dead_letter", "refused"], handler=PROCESS)
    failed = script(["fail", "no"], handler=PROCESS, max_attempts=1)
    ended = script(["exit", 3], handler=PROCESS, max_attempts=1)
    assert spawn("--drain").wait() == 0
    assert (where(done), result(done)) == ("completed", {"answer": 42})
    assert effects() == [(done, 1)]
    assert (where(later), where(kept)) == ("live: scheduled", "live: scheduled")
    assert sql("SELECT state FROM pgqueue_message WHERE id = %s", later) == [('{"page": 1}',)]
    assert where(refused) == "dead: refused"
    assert (where(failed), error(failed)["type"]) == ("dead: failed", "ValueError")
    assert "handlers.py" in error(failed)["traceback"]
    assert (where(ended), error(ended)["type"]) == ("dead: failed", "SystemExit")


def test_a_process_is_used_again(spawn: Spawn) -> None:
    messages = scripts(10, ["pid"], handler=PROCESS)
    worker = spawn("--drain", "--concurrency", "2")
    assert worker.wait() == 0
    pids = {result(message) for message in messages}
    assert len(pids) <= 2
    assert worker.popen.pid not in pids
    for pid in pids:
        assert not process_exists(pid)


@pytest.mark.parametrize(("step", "name"), [("kill", "SIGKILL"), ("segfault", "SIGSEGV")])
def test_a_process_that_dies_fails_its_message_and_no_other(spawn: Spawn, step: str, name: str) -> None:
    bad = script([step], handler=PROCESS, max_attempts=2)
    good = scripts(10, ["effect"], handler=PROCESS) + scripts(10, ["effect"])
    worker = spawn("--concurrency", "2")
    eventually(lambda: where(bad) == "dead: poison")
    assert error(bad)["type"] == "django_pgqueue.exceptions.WorkerDied"
    assert name in error(bad)["message"]
    eventually(lambda: len(effects()) == 20)
    assert sorted(message for message, _ in effects()) == good
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_process_is_killed_at_the_timeout(spawn: Spawn) -> None:
    bad = script(["mark", "running"], ["sleep", 600], handler=SHORT, max_attempts=1)
    good = script(["effect"], handler=SHORT)
    worker = spawn("--concurrency", "1")
    eventually(lambda: where(bad) == "dead: timed_out")
    assert "timeout of 0:00:01" in error(bad)["message"]
    eventually(lambda: where(good) == "completed")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_cancellation_reaches_the_process(spawn: Spawn) -> None:
    message = script(["mark", "running"], ["until cancelled"], handler=PROCESS)
    spawn("--lease", "1")
    eventually(lambda: marks("running"))
    cancel(message)
    eventually(lambda: where(message) == "cancelled")
    assert result(message) == {"reason": "at attempt 1"}


def test_an_answer_that_cannot_leave_the_process_is_a_failure(spawn: Spawn) -> None:
    message = script(["object"], handler=PROCESS, max_attempts=1)
    assert spawn("--drain").wait() == 0
    assert where(message) == "dead: failed"
    assert "HandlerError" in error(message)["type"]


@pytest.mark.parametrize("step", ["lambda", "cannot be read"])
def test_a_result_that_cannot_be_pickled_is_named_and_costs_no_process(spawn: Spawn, step: str) -> None:
    message = script(["spoil the payload"], [step], handler=PROCESS, max_attempts=1)
    assert spawn("--drain").wait() == 0
    assert where(message) == "dead: failed"
    assert "What the handler returned cannot leave the process" in error(message)["message"]


def test_a_payload_that_a_handler_spoils_does_not_spoil_its_outcome(spawn: Spawn) -> None:
    message = script(["spoil the payload"], ["complete", 42], handler=PROCESS, max_attempts=1)
    assert spawn("--drain").wait() == 0
    assert (where(message), result(message)) == ("completed", 42)


def test_a_process_that_dies_between_two_messages_costs_the_next_no_attempt(spawn: Spawn) -> None:
    first = script(["kill later", 0.2], ["pid"], handler=PROCESS)
    worker = spawn("--concurrency", "1")
    eventually(lambda: where(first) == "completed", seconds=30)
    # A zombie, until its parent asks for it.
    eventually(lambda: Path(f"/proc/{result(first)}/stat").read_text().split()[2] == "Z")
    message = script(["effect"], handler=PROCESS, max_attempts=1)
    eventually(lambda: where(message) == "completed", seconds=30)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_it_ends_with_its_worker(spawn: Spawn) -> None:
    script(["sql", "CREATE TABLE scripted_pid AS SELECT pg_backend_pid() AS pid"], ["sleep", 600], handler=PROCESS)
    worker = spawn("--lease", "1")
    try:
        eventually(lambda: sql("SELECT to_regclass('scripted_pid')")[0][0])
        worker.signal(signal.SIGKILL)
        worker.wait()
        backend = "SELECT 1 FROM pg_stat_activity WHERE pid IN (SELECT pid FROM scripted_pid)"
        eventually(lambda: not sql(backend))
    finally:
        sql("DROP TABLE IF EXISTS scripted_pid")


@pytest.mark.parametrize("option", [{"atomic": True}, {"batch": 5}])
def test_it_goes_with_one_message_outside_of_the_transaction_only(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="process=True, and atomic or batch"):
        handlers.handler("h", process=True, **option)(lambda delivery: None)


def test_an_async_handler_has_no_process() -> None:
    async def function(delivery: Delivery) -> None: ...

    with pytest.raises(ValueError, match="async and has process=True"):
        handlers.handler("h", process=True, timeout=timedelta(1))(function)
