"""Tasks: enqueued by a producer, run by a worker, read by a reader, each with the rights of its kind alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.security.test_roles_at_work import as_role
from tests.support.paths import REPOSITORY
from tests.support.sessions import Session
from tests.support.waiting import eventually

ENQUEUE = """
from django.db import ProgrammingError, transaction
from django_pgqueue.tasks import Call, enqueue_many
from tests.security.echo import tasks

enqueued = {
    "add": tasks.add.enqueue(1),
    "first": tasks.add.using(dedupe_key="once").enqueue(2),
    "add_slowly": tasks.add_slowly.enqueue(2),
    "fail_once": tasks.fail_once.enqueue(),
    "fail": tasks.fail.enqueue(),
    "refuse": tasks.refuse.enqueue(),
}
assert tasks.add.using(dedupe_key="once").enqueue(2).id == enqueued["first"].id
with transaction.atomic():
    tasks.add.enqueue(7)
    transaction.set_rollback(True)
enqueued["many"], _ = enqueue_many([Call(tasks.add, (3,)), Call(tasks.add, (4,))])
try:
    enqueued["add"].refresh()
except ProgrammingError as error:
    refused = str(error)
answer({"refused": refused, "ids": {name: result.id for name, result in enqueued.items()}})
"""
READ = """
from django_pgqueue.tasks.compat import task_backends

found = {name: task_backends["default"].get_result(number) for name, number in json.loads(sys.argv[1]).items()}
answer({
    name: [
        str(result.status), result.return_value if result.status == "SUCCESSFUL" else None,
        [error.exception_class_path for error in result.errors], result.attempts,
    ]
    for name, result in found.items()
})
"""
SCRIPT = """
import json, sys
import django
django.setup()
def answer(value):
    print(json.dumps(value))
"""
Environment = Callable[[str], dict[str, str]]


@pytest.fixture
def environment_of(roles: dict[str, str], environment: dict[str, str]) -> Environment:
    """The environment of a process that logs in as a role of this kind."""
    return lambda kind: {
        **environment,
        "DATABASE_URL": as_role(environment["DATABASE_URL"], roles[kind]),
        "DJANGO_SETTINGS_MODULE": "tests.security.settings",
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")]),
    }


def run(environment: dict[str, str], script: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + script, *arguments],
        env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tasks_are_enqueued_run_and_read_by_roles_that_may_do_that_alone(
    empty: Session, environment_of: Environment
) -> None:
    said = run(environment_of("producer"), ENQUEUE)
    assert "permission denied" in said["refused"], "who may only enqueue does not read results"
    assert empty.execute("SELECT count(*) FROM pgqueue_message").fetchone() == (8,)

    worker = subprocess.Popen(
        [sys.executable, "-m", "django", "runqueueworker", "--processes", "1", "--no-reload"],
        env=environment_of("worker"), cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    left = "SELECT count(*) FROM pgqueue_message"
    try:
        eventually(lambda: empty.execute(left).fetchone() == (0,))
    finally:
        worker.terminate()
        log, _ = worker.communicate(timeout=280)
    assert worker.returncode == 0, log
    assert "permission denied" not in log

    read = run(environment_of("reader"), READ, json.dumps(said["ids"]))
    assert read == {
        "add": ["SUCCESSFUL", 2, [], 1],
        "first": ["SUCCESSFUL", 3, [], 1],
        "many": ["SUCCESSFUL", 4, [], 1],
        "add_slowly": ["SUCCESSFUL", 3, [], 1],
        "fail_once": ["SUCCESSFUL", [2, "RUNNING", 1], ["builtins.KeyError"], 2],
        "fail": ["FAILED", None, ["builtins.ValueError", "builtins.ValueError"], 2],
        "refuse": ["FAILED", None, ["django_pgqueue.outcomes.Reject"], 1],
    }
    # The errors of earlier attempts are in tables that a worker may not read.
    for heard in ("add SUCCESSFUL 0", "fail_once SUCCESSFUL 0", "fail FAILED 1", "refuse FAILED 1"):
        assert f"heard: {heard}\n" in log
