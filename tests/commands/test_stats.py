from __future__ import annotations

import json
import signal
import subprocess
import sys
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from django_pgqueue import channel_set, enqueue, queue_pause
from tests.support.commands import pgqueue
from tests.support.default_channel import _default_channel  # noqa: F401  (a fixture, used by all)
from tests.support.moments import pass_time
from tests.support.paths import REPOSITORY
from tests.support.sessions import Connect


def run(*arguments: object) -> str:
    return pgqueue("stats", *arguments, skip_checks=True)


@pytest.mark.django_db
def test_a_table_of_queues() -> None:
    channel_set(channel="default")
    channel_set(channel="acme", queue="mails")
    enqueue("h")
    pass_time(hours=1, minutes=2)
    queue_pause("mails")
    lines = run().splitlines()
    columns = "queue ready leased scheduled blocked limited keyed dead oldest workers state"
    assert lines[0].split() == columns.split()
    assert lines[1].split()[:8] == ["default", "1", "0", "0", "0", "0", "0", "0"]
    assert lines[1].split()[8].startswith("1:02:0")
    assert lines[2].split() == ["mails", "0", "0", "0", "0", "0", "0", "0", "-", "0", "paused"]
    assert len(lines) == 3


def test_the_rates_count_enqueued_and_settled_messages(connect: Connect) -> None:
    channel_set(channel="default")
    with connection.cursor() as cursor:
        # The server adds up what a session did with a delay: the dead letters of an earlier test would count here.
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT 1")
    session = connect(autocommit=True)
    output = StringIO()

    class Between(StringIO):
        """Works between the first look and the second."""

        def write(self, text: str) -> int:
            if not output.getvalue():
                for _ in range(20):
                    session.execute("SELECT pgqueue_enqueue('h')")
                session.execute(
                    "SELECT pgqueue_complete(array_agg(id), array_agg(token)) FROM pgqueue_dequeue(p_limit => 10)"
                )
                session.execute("SELECT pg_stat_force_next_flush()")
                session.execute("SELECT 1")
            return output.write(text)

    call_command("pgqueue", "stats", "--watch", "0.2", "--times", "2", "--json", stdout=Between(), skip_checks=True)
    first, second = map(json.loads, output.getvalue().splitlines())
    assert first["per_second"] is None
    assert second["queues"][0]["ready"] == 10
    assert second["per_second"]["enqueued"] > second["per_second"]["archived"] > 0
    assert second["per_second"]["dead"] == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("untraced")
def test_it_is_watched_until_the_user_presses_ctrl_c(environment: dict[str, str]) -> None:
    channel_set(channel="default")
    command = [sys.executable, "manage.py", "pgqueue", "stats", "--watch", "0.1", "--skip-checks"]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY / "testproject",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job ignores SIGINT, and so would the command.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        seen = [process.stdout.readline() for _ in range(7)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=280)
    assert sum(line.startswith("queue ") for line in seen) >= 2
    assert sum(line.startswith("per second: ") for line in seen) >= 1
    assert (process.returncode, errors) == (0, "")


@pytest.mark.django_db
def test_mistakes_are_one_clear_line() -> None:
    with pytest.raises(CommandError, match="There is no database 'elsewhere'"):
        run("--database", "elsewhere")
    with pytest.raises(CommandError, match="not between"):
        run("--watch", "0.05")
    channel_set(channel="acme", queue="mails")
    with pytest.raises(CommandError, match=r"There is no queue 'mail'\. Queues: default, mails\."):
        run("--queue", "mail")
