"""The command starts a process; what that does is tested in tests/spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from django_pgqueue.management.commands.queuelake import conninfo, environment, promises, run

CHILD = "import sys, time; print('started', flush=True); time.sleep(60)"
PARENT = f"""
import os, sys
from django_pgqueue.management.commands.queuelake import run
sys.exit(run([sys.executable, "-c", {CHILD!r}], dict(os.environ)))
"""


@pytest.mark.django_db
def test_the_process_connects_to_the_queues_database() -> None:
    with psycopg.connect(conninfo("default")) as session:
        [name] = session.execute("SELECT current_database()").fetchone()
    assert name == connections["default"].settings_dict["NAME"]


def test_a_password_and_options_reach_the_process() -> None:
    secret = "it's a \\ canary"
    given = {**connections["default"].settings_dict, "USER": "shop", "PASSWORD": secret, "HOST": "db", "PORT": "6432"}
    given["OPTIONS"] = {"sslmode": "require", "options": "-c search_path=queue", "server_side_binding": True}
    wrapper = type(connections["default"])(given, "elsewhere")
    connections["elsewhere"] = wrapper
    try:
        source = environment("elsewhere")["PGQUEUE_SOURCE"]
    finally:
        del connections["elsewhere"]
    found = psycopg.conninfo.conninfo_to_dict(source)
    assert (found["user"], found["password"], found["host"], found["port"]) == ("shop", secret, "db", "6432")
    assert (found["sslmode"], found["options"]) == ("require", "-c search_path=queue")


def test_settings_are_handed_over() -> None:
    given = {"LAKE": Path("/srv/lake"), "SLA": {"mails": timedelta(minutes=1), "a=b/c": timedelta(milliseconds=250)}}
    with override_settings(DJANGO_PGQUEUE=given):
        assert environment("default")["PGQUEUE_LAKE"] == "/srv/lake"
        assert promises("rollup") == ["--sla=mails=60.0", "--sla=a=b/c=0.25"]
        assert promises("export") == []


@pytest.mark.parametrize(
    ("program", "status"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_a_status_and_a_signal_are_told_as_a_shell_does(program: str, status: int) -> None:
    thread = threading.Thread(target=lambda: told.append(run([sys.executable, "-c", program], dict(os.environ))))
    told: list[int] = []
    thread.start()
    thread.join(30)
    assert told == [status]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_process_too(number: int, status: int) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        parent.send_signal(number)
        # The end of the output: nobody who could write it is left.
        assert parent.stdout.read() == ""
        assert parent.wait(30) == status


def test_an_unknown_database_and_an_unknown_action_are_named() -> None:
    with pytest.raises(CommandError, match="There is no database 'elsewhere' in DATABASES"):
        call_command("queuelake", "--database", "elsewhere", "export")
    with pytest.raises(CommandError, match="invalid choice: 'delete'"):
        call_command("queuelake", "delete")
