"""A handlers.py that cannot be imported takes its own handlers away, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from django_pgqueue import handlers
from django_pgqueue.checks import declared as imports
from tests.support.paths import REPOSITORY
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, script, where

BROKEN = "tests.worker.broken"
MODULE = f"{BROKEN}.handlers"


@pytest.fixture
def _forget() -> Iterator[None]:
    yield
    handlers.broken.clear()


@pytest.mark.parametrize("processes", [0, 1])
def test_the_others_are_served_and_its_messages_wait(spawn: Callable[..., Process], processes: int) -> None:
    waiting = [script(handler="broken.first", max_attempts=1), script(handler="broken.second", max_attempts=1)]
    good = script(["effect"])
    worker = spawn(processes=processes, EXTRA_APPS=BROKEN)
    eventually(lambda: where(good) == "completed")
    assert effects() == [(good, 1)]
    eventually(lambda: {where(message) for message in waiting} == {"live: scheduled"})
    assert sql("SELECT DISTINCT attempts, errors FROM pgqueue_message") == [(0, None)]
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert worker.log.count(f"{MODULE} cannot be imported") == 1 + processes, "once in each process"
    assert "No module named 'a_module_that_nobody_has'" in worker.log
    assert "broken/handlers.py" in worker.log, "with a traceback"


@pytest.mark.usefixtures("_forget")
def test_nothing_of_it_is_registered() -> None:
    handlers.discover(MODULE)
    assert handlers.find("broken.first") is None
    assert list(handlers.broken) == [MODULE]


@pytest.mark.usefixtures("_forget")
def test_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    handlers.discover(MODULE)
    handlers.discover(MODULE)
    [record] = [record for record in caplog.records if getattr(record, "event", "") == "import_failed"]
    assert record.handlers_module == MODULE
    assert record.exc_info


@pytest.mark.usefixtures("_forget")
def test_the_system_check_says_it_and_does_not_keep_a_worker_from_starting() -> None:
    assert imports.import_messages() == []
    handlers.discover(MODULE)
    [message] = imports.import_messages()
    assert (message.id, message.is_serious()) == ("pgqueue.E017", True)
    assert "a_module_that_nobody_has" in message.msg
    with imports.tolerated():
        [message] = imports.import_messages()
    assert not message.is_serious()


def test_manage_check_fails(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "django", "check"]
    variables = {"DJANGO_SETTINGS_MODULE": "tests.worker.settings", "EXTRA_APPS": BROKEN}
    path = f"{REPOSITORY}:{REPOSITORY / 'testproject'}"
    ran = subprocess.run(
        command,
        env={**environment, **variables, "PYTHONPATH": path},
        cwd=REPOSITORY, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "pgqueue.E017" in ran.stderr
