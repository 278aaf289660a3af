"""A database that cannot write a settlement: a right or a function is missing. No message is the cause."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue.models import DeadLetter, Message
from tests.support.commands import output_of
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, marks, script, scripts, where
from tests.worker.test_probes import ask

Spawn = Callable[..., Process]
SIGNATURE = "SELECT oid::regprocedure::text FROM pg_proc WHERE proname = 'pgqueue_complete'"
# A role that is a worker but for one right, as whom a session of its own logs in.
ROLE = "pgqueue_test_misfit"


@pytest.fixture
def without_complete(queue: None) -> Iterator[Callable[[], None]]:
    """`without_complete()`: from now on the database has no pgqueue_complete. Call the answer to bring it back."""
    [(signature,)] = sql(SIGNATURE)
    arguments = signature.partition("(")[2]
    hidden = f"hidden_complete({arguments}"

    def bring_back() -> None:
        if not sql(SIGNATURE):
            sql(f"ALTER FUNCTION {hidden} RENAME TO pgqueue_complete")

    def hide() -> Callable[[], None]:
        sql(f"ALTER FUNCTION {signature} RENAME TO hidden_complete")
        return bring_back

    yield hide
    bring_back()


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("handler", ["scripted", "scripted.async", "scripted.atomic"])
def test_a_settlement_that_no_function_can_write_fails_no_message(
    spawn: Spawn,
    without_complete: Any,
    port: int,
    handler: str,
    processes: int,
) -> None:
    worker = spawn("--probe-port", str(port), "--concurrency", "2", processes=processes)
    eventually(lambda: ask(port, "/readyz")[0] == 200)
    bring_back = without_complete()
    messages = scripts(10, ["mark", "run"], ["effect"], handler=handler, max_attempts=1)
    eventually(lambda: "pgqueue_complete" in worker.log)
    assert "run manage.py migrate" in worker.log.lower()
    eventually(lambda: ask(port, "/readyz")[0] == 503)
    assert "pgqueue_complete" in " ".join(ask(port, "/readyz")[1]["problems"])
    # It serves nothing more, and runs nothing again.
    later = script(["effect"], handler=handler)
    time.sleep(1)
    assert where(later) == "live: ready"
    assert marks("run") <= len(messages)
    assert not DeadLetter.objects.exists()
    assert set(Message.objects.values_list("errors", flat=True)) == {None}
    bring_back()
    eventually(lambda: not Message.objects.exists())
    assert sorted(effects()) == [(message, 1) for message in [*messages, later]]
    eventually(lambda: ask(port, "/readyz")[0] == 200)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


@pytest.fixture
def refused_archive(queue: None) -> Iterator[Callable[[], None]]:
    """`refused_archive()`: from now on a constraint of the archive refuses completed messages."""
    yield lambda: sql("ALTER TABLE pgqueue_archived_message ADD CONSTRAINT refused CHECK (outcome <> 'completed')")
    sql("ALTER TABLE pgqueue_archived_message DROP CONSTRAINT IF EXISTS refused")


def test_an_error_of_the_settlement_is_found_once_the_function_is_there_again(
    start: Callable[..., Any], without_complete: Any, refused_archive: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It is an error of the message, for which an atomic handler must not wait for ever."""
    bring_back = without_complete()
    message = script(["effect"], handler="scripted.atomic", max_attempts=1)
    start(concurrency=1)
    eventually(lambda: "the database fails" in caplog.text)
    refused_archive()
    bring_back()
    eventually(lambda: where(message) == "dead: failed", seconds=30)
    assert "refused" in DeadLetter.objects.get(id=message).errors[0]["message"]
    assert effects() == []


def test_an_atomic_handler_that_gives_its_rights_away_fails(spawn: Spawn, misfit: str) -> None:
    """The database can settle the message, so a retry for ever would hide the fault of the handler."""
    bad = script(["sql", f"SET LOCAL ROLE {misfit}"], handler="scripted.atomic", max_attempts=2)
    assert spawn("--drain").wait() == 0
    assert where(bad) == "dead: failed"
    assert "pgqueue_complete" in DeadLetter.objects.get(id=bad).errors[0]["message"]


def test_a_worker_whose_role_may_not_settle_does_not_start(spawn: Spawn, misfit: str, pg_url: str) -> None:
    message = script(["effect"])
    worker = spawn("--drain", DATABASE_URL=f"{pg_url}&user={misfit}&password=for-the-tests")
    assert worker.wait() == 1
    assert where(message) == "live: ready"
    assert "EXECUTE on pgqueue_complete" in worker.log
    assert f"manage.py pgqueue grant worker {misfit}" in worker.log


def test_a_role_that_loses_the_right_to_settle_runs_no_message_again(spawn: Spawn, misfit: str, pg_url: str) -> None:
    [(signature,)] = sql(SIGNATURE)
    sql(f"GRANT EXECUTE ON FUNCTION {signature} TO {misfit}")
    worker = spawn("--lease", "2", processes=1, DATABASE_URL=f"{pg_url}&user={misfit}&password=for-the-tests")
    first = script(["effect"])
    eventually(lambda: where(first) == "completed")
    sql(f"REVOKE EXECUTE ON FUNCTION {signature} FROM {misfit}")
    messages = scripts(20, ["effect"])
    told = f"manage.py pgqueue grant worker {misfit}"
    eventually(lambda: told in worker.log)
    # The leases are extended all the time.
    taken = Message.objects.filter(status=Message.Status.LEASED).order_by("lease_expires_at").values("lease_expires_at")
    since = taken[0]["lease_expires_at"]
    eventually(lambda: taken[0]["lease_expires_at"] > since + timedelta(seconds=2))
    sql(f"GRANT EXECUTE ON FUNCTION {signature} TO {misfit}")
    eventually(lambda: not Message.objects.exists())
    assert sorted(effects()) == [(message, 1) for message in [first, *messages]]
    assert len(re.findall("the database fails", worker.log)) == 1


@pytest.fixture
def misfit(queue: None, pg_url: str) -> Iterator[str]:
    """The name of a role that has all rights of a worker and may not run pgqueue_complete."""
    sql(f"CREATE ROLE {ROLE} LOGIN PASSWORD 'for-the-tests'")
    try:
        output_of("pgqueue", "grant", "worker", ROLE)
        sql(f"REVOKE EXECUTE ON FUNCTION {sql(SIGNATURE)[0][0]} FROM {ROLE}")
        sql(f"GRANT ALL ON scripted_effect, scripted_mark TO {ROLE}")
        yield ROLE
    finally:
        sql(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}")
