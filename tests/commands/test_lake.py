"""The command starts a process; what that does is tested in tests/spark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from django_pgqueue import channel_set, complete, dequeue, enqueue
from django_pgqueue.management.cli.lake import lake_environment, promises
from django_pgqueue.pipeline.models import Lake
from django_pgqueue.spark.arguments import sla
from tests.support.commands import manage
from tests.support.paths import REPOSITORY
from tests.support.tables import empty_tables

CHILD = "import sys, time; print('started', flush=True); time.sleep(60)"
PARENT = f"""
import os, sys
import django
django.setup()
from django_pgqueue.management.cli.lake import run_process
sys.exit(run_process([sys.executable, "-c", {CHILD!r}], dict(os.environ)))
"""


@pytest.mark.django_db
def test_the_exit_status_is_that_of_the_process(environment: dict[str, str]) -> None:
    wrong = manage("pgqueue", "lake", "verify", **environment)
    assert wrong.returncode == 2
    assert "required: --lake" in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.fixture
def settled(transactional_db: None) -> Iterator[None]:
    """One message is in the archive. Django's flush leaves the tables that it does not manage as they are."""
    channel_set(channel="default")
    enqueue("h", {"n": 1})
    complete(dequeue())
    yield
    empty_tables()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("settled")
def test_an_export_brings_the_queue_to_the_lake_and_shows_no_password(
    environment: dict[str, str], pg_url: str, tmp_path: Path
) -> None:
    secret = "canary-in-a-coal-mine"
    user = connections["default"].settings_dict["USER"]
    url = re.sub("//.*?@", f"//{user}:{secret}@", pg_url)
    seen: set[str] = set()
    done = threading.Event()
    watcher = threading.Thread(target=watch_arguments, args=(secret, seen, done))
    watcher.start()
    try:
        exported = manage(
            "pgqueue", "lake", "export", "--lake", str(tmp_path / "lake"), **{**environment, "DATABASE_URL": url}
        )
    finally:
        done.set()
        watcher.join()
    assert exported.returncode == 0, exported.stderr
    assert Lake.objects.get().rows["archive"]
    assert seen == set()
    assert secret not in exported.stdout + exported.stderr
    assert not any(secret.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def watch_arguments(secret: str, seen: set[str], done: threading.Event) -> None:
    """Look for the secret in the arguments of all processes, as a process list shows them."""
    while not done.wait(0.2):
        for arguments in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if secret in (text := arguments.read_text(errors="replace")):
                    seen.add(text)


def test_a_password_and_options_reach_the_process() -> None:
    secret = "it's a \\ canary"
    given = {**connections["default"].settings_dict, "USER": "shop", "PASSWORD": secret, "HOST": "db", "PORT": "6432"}
    given["OPTIONS"] = {"sslmode": "require", "options": "-c search_path=queue", "server_side_binding": True}
    wrapper = type(connections["default"])(given, "elsewhere")
    connections["elsewhere"] = wrapper
    try:
        source = lake_environment("elsewhere")["PGQUEUE_SOURCE"]
    finally:
        del connections["elsewhere"]
    found = psycopg.conninfo.conninfo_to_dict(source)
    assert (found["user"], found["password"], found["host"], found["port"]) == ("shop", secret, "db", "6432")
    assert (found["sslmode"], found["options"]) == ("require", "-c search_path=queue")


def test_settings_are_handed_over() -> None:
    given = {"LAKE": Path("/srv/lake"), "SLA": {"mails": timedelta(minutes=1), "a=b/c": timedelta(microseconds=1)}}
    with override_settings(DJANGO_PGQUEUE=given):
        assert lake_environment("default")["PGQUEUE_LAKE"] == "/srv/lake"
        assert promises("export") == []
        options = promises("rollup")
        assert promises("run") == options
    assert all(option.startswith("--sla=") for option in options)
    assert dict(sla(option.removeprefix("--sla=")) for option in options) == given["SLA"]


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_process_too(number: int, status: int) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "testproject")))},
        # A shell that runs the tests in the background has it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        parent.send_signal(number)
        # The end of the output: no process that could write it is left.
        assert parent.stdout.read() == ""
        assert parent.wait(280) == status


def test_an_unknown_database_and_an_unknown_action_are_named() -> None:
    with pytest.raises(CommandError, match="There is no database 'elsewhere' in DATABASES"):
        call_command("pgqueue", "lake", "--database", "elsewhere", "export")
    with pytest.raises(CommandError, match="invalid choice: 'delete'"):
        call_command("pgqueue", "lake", "delete")
