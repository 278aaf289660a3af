from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from django_pgqueue.spark.cli import COMMANDS, _said_by_task
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import SourceLost
from tests.spark.rows import fill_archive
from tests.support.cases import cases
from tests.support.sessions import Connect
from tests.support.waiting import eventually

CANARY = "c4n4ry-9713"
NOWHERE = f"postgresql://ada:{CANARY}@127.0.0.1:9/shop"
# As if the package were not installed: its import finds nothing.
MAIN = "from django_pgqueue.spark.cli import main; sys.exit(main())"
WITHOUT = f"import sys; sys.modules[sys.argv.pop(1)] = None; {MAIN}"


def run(*arguments: str, code: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    program = ["-m", "django_pgqueue.spark"] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, *program, *arguments],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def wait_until_blocked(database: psycopg.Connection) -> None:
    """Until a session of the pipeline waits for a lock."""
    blocked = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'pgqueue spark%' AND wait_event_type = 'Lock'"
    eventually(lambda: database.execute(blocked).rowcount, seconds=280)


def test_help_lists_the_commands_and_imports_neither_spark_nor_django():
    code = f"import sys, atexit; atexit.register(lambda: print(*sys.modules)); {MAIN}"
    done = run("--help", code=code)
    assert done.returncode == 0
    assert all(f"    {name} " in done.stdout for name in COMMANDS)
    assert not {"pyspark", "pyarrow", "psycopg", "django"} & set(done.stdout.split())


@cases("command", COMMANDS)
def test_help_of_a_command_needs_no_spark(command: str):
    done = run("pyspark", command, "--help", code=WITHOUT)
    assert done.returncode == 0, done.stderr
    assert f"usage: python -m django_pgqueue.spark {command}" in done.stdout


@cases("arguments", [[], ["nonsense"], ["export"], ["export", "--lake", "x", "--conf", "nonsense"]])
def test_wrong_usage_is_status_2(arguments: list[str]):
    done = run(*arguments)
    assert done.returncode == 2
    assert "usage:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_package_that_is_missing_is_one_line(tmp_path: Path):
    done = run("pyarrow", "export", "--lake", str(tmp_path / "lake"), "--source", NOWHERE, code=WITHOUT)
    assert done.returncode == 1
    assert done.stderr == "pyarrow is not installed: pip install 'pgqueue-django[spark]'.\n"


def test_a_traceback_shows_no_password(tmp_path: Path):
    (tmp_path / "export.py").write_text(
        "def add_arguments(parser): parser.add_argument('--source')\n"
        "def run(args): raise ValueError(f'unexpected: {args.source} ' + args.source[17:28])\n"
    )
    code = f"import sys, django_pgqueue.spark as spark; spark.__path__.insert(0, {str(tmp_path)!r}); {MAIN}"
    done = run("export", "--source", NOWHERE, code=code)
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: unexpected: postgresql://ada:********@127.0.0.1:9/shop ********\n")


@pytest.mark.parametrize(
    "error", [PipelineError("The file f is broken: run verify."), SourceLost("The file f is broken: run verify.")]
)
def test_an_error_of_a_task_is_its_one_line(spark, error: PipelineError):
    def fail(_: int) -> int:
        raise error

    with pytest.raises(Exception, match="Traceback") as raised:
        spark.sparkContext.parallelize([1], 1).map(fail).collect()
    assert _said_by_task(raised.value) == "The file f is broken: run verify."


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_command_says_so_by_its_status_alone(
    database: psycopg.Connection, connect: Connect, dsn: str, lake: Path, number: signal.Signals, status: int
):
    fill_archive(database, 10)
    # The lock stops the command in its first look at the archive.
    connect().execute("LOCK TABLE pgqueue_archived_message IN ACCESS EXCLUSIVE MODE")
    process = subprocess.Popen(
        [sys.executable, "-m", "django_pgqueue.spark", "export", "--lake", str(lake)],
        env={**os.environ, "PGQUEUE_SOURCE": dsn},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until_blocked(database)
        process.send_signal(number)
        _, errors = process.communicate(timeout=280)
    finally:
        process.kill()
    assert (process.returncode, errors) == (status, "")
