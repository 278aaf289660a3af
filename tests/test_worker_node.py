"""The worker of examples/worker-node: its Node.js process runs messages of a real server by the functions alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.types.json import Jsonb

from tests.support.sessions import Connect, Session, column, one
from tests.support.waiting import eventually

FOLDER = Path(__file__).parents[1] / "examples" / "worker-node"
MISSING = [program for program in ("node", "npm") if not shutil.which(program)]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"not found: {', '.join(MISSING)}. Install Node.js 18 or newer, which brings npm."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node") / FOLDER.name
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("node_modules"))
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    installed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install the package pg here: {(installed.stderr or installed.stdout).strip()[-300:]}")
    return folder


@pytest.fixture
def session(connect: Connect) -> Session:
    return connect(autocommit=True)


@pytest.fixture
def worker(session: Session, folder: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    info = session.info
    place = {"PGHOST": info.host, "PGPORT": str(info.port), "PGUSER": info.user, "PGDATABASE": info.dbname}
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    if info.password:
        place["PGPASSWORD"] = info.password
    with subprocess.Popen(
        ["node", "worker.mjs"],
        cwd=folder,
        env={**environment, **place, "LEASE_SECONDS": "1.5", "LOOK_SECONDS": getattr(request, "param", "1")},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert "serves the queue default" in process.stdout.readline()
            yield process
        finally:
            process.kill()


def enqueue(session: Session, handler: str = "thumbnail.make", attempts: int = 3, **payload: object) -> int:
    sql = "SELECT id FROM pgqueue_enqueue(%s, %s, p_max_attempts => %s, p_backoff => '10 milliseconds')"
    return one(session, sql, handler, Jsonb(payload), attempts)


def settled(session: Session, message: int) -> bool:
    return eventually(lambda: one(session, "SELECT 1 FROM pgqueue_message WHERE id = %s", message) is None, seconds=60)


RESULT = "SELECT result FROM pgqueue_archived_message WHERE id = %s"


def test_it_runs_retries_and_gives_up_as_a_worker_in_python(session: Session, worker: subprocess.Popen[str]) -> None:
    done = enqueue(session, image="a.png")
    failing = enqueue(session, image="b.png", failures=2)
    hopeless = enqueue(session, image="c.png", failures=9)
    wrong = enqueue(session)
    strange = enqueue(session, handler="not.there")

    for message in (done, failing, hopeless, wrong, strange):
        settled(session, message)

    assert one(session, RESULT, done) == {"thumbnail": "a.png.small", "attempts": 1}
    assert one(session, RESULT, failing) == {"thumbnail": "b.png.small", "attempts": 3}
    reasons = column(session, "SELECT reason FROM pgqueue_dead_letter ORDER BY id")
    assert reasons == ["failed", "rejected", "unknown_handler"]


def test_it_keeps_the_lease_of_a_message_that_takes_longer(session: Session, worker: subprocess.Popen[str]) -> None:
    message = enqueue(session, image="a.png", seconds=4)

    settled(session, message)

    assert one(session, RESULT, message) == {"thumbnail": "a.png.small", "attempts": 1}


def test_it_ends_a_message_that_is_cancelled(session: Session, worker: subprocess.Popen[str]) -> None:
    message = enqueue(session, image="a.png", seconds=30)
    eventually(lambda: one(session, "SELECT status = 2 FROM pgqueue_message WHERE id = %s", message), seconds=60)
    session.execute("SELECT pgqueue_cancel(ARRAY[%s]::bigint[])", [message])

    settled(session, message)

    assert one(session, "SELECT outcome FROM pgqueue_archived_message WHERE id = %s", message) == "cancelled"


def test_it_finishes_what_it_runs_when_it_is_asked_to_stop(session: Session, worker: subprocess.Popen[str]) -> None:
    message = enqueue(session, image="a.png", seconds=2)
    eventually(lambda: one(session, "SELECT status = 2 FROM pgqueue_message WHERE id = %s", message), seconds=60)

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(30) == 0
    assert one(session, RESULT, message) == {"thumbnail": "a.png.small", "attempts": 1}


@pytest.mark.parametrize("worker", ["3600"], indirect=True)
def test_it_is_woken_by_a_notification(session: Session, worker: subprocess.Popen[str]) -> None:
    sleeps = "SELECT count(*) FROM pgqueue_waiter WHERE wait_until > clock_timestamp()"
    eventually(lambda: one(session, sleeps), seconds=60)

    # One after the other, so that it has gone to sleep again.
    for number in range(3):
        settled(session, enqueue(session, image=f"{number}.png"))
        eventually(lambda: one(session, sleeps), seconds=60)
