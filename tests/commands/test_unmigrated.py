"""Each command on a database that is not the queue's, or not as this release needs it: it says what to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command, load_command_class
from django.db import ProgrammingError, connections

from django_pgqueue import dequeue, enqueue, metrics
from django_pgqueue.checks.migrated import find_schema_problem
from django_pgqueue.doctor import examine
from django_pgqueue.embedded.settings import parse_url
from django_pgqueue.lifecycle.queues import queue_names
from django_pgqueue.management.cli.options import NAME
from django_pgqueue.management.cli.verbs import VERBS
from django_pgqueue.sql.call import call
from tests.support.cases import cases
from tests.support.sql import sql

BARE = "pgqueue_test_bare"
COMMANDS = ["runqueueworker", "sweepqueue"]
# The other arguments that verbs need.
ARGUMENTS = {
    "edit message": "1 --payload 1", "explain message": "1", "explain channel": "acme", "grant": "reader someone",
    "revoke": "reader someone", "rights": "reader someone", "reschedule message": "1 --delay 5",
    "open breaker": "h", "close breaker": "h",
}  # fmt: skip


def verbs() -> list[str]:
    """Each verb that needs the tables, with what it cannot do without."""
    load_command_class("django_pgqueue", "pgqueue")
    found = [each for each in VERBS.values() if each.database == "migrated"]
    named = {each.words for each in found if NAME in each.options}
    return [
        f"pgqueue {each.words} {ARGUMENTS.get(each.words, 'acme' if each.words in named else '')}" for each in found
    ]


@pytest.fixture
def bare(pg_url: str, django_db_blocker: Any) -> Iterator[str]:
    """An alias for a database on the same server that has no tables."""
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(f"DROP DATABASE IF EXISTS {BARE} WITH (FORCE)")
        session.execute(f"CREATE DATABASE {BARE}")
    url = urlsplit(pg_url)._replace(path=f"/{BARE}").geturl()
    connections.settings["bare"] = {**connections.settings["default"], **parse_url(url)}
    with django_db_blocker.unblock():
        yield "bare"
    connections["bare"].close()
    del connections["bare"]
    del connections.settings["bare"]
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(f"DROP DATABASE {BARE} WITH (FORCE)")


@pytest.fixture
def problem(db: None) -> Callable[[str], str]:
    """`problem("DELETE …")`: what is wrong with the queue's database after this statement, with what to do."""

    def problem(statement: str) -> str:
        sql(statement)
        found = find_schema_problem("default")
        return "" if found is None else f"{found.problem} {found.action}"

    return problem


@cases("words", [*COMMANDS, *verbs()])
def test_a_command_says_that_the_database_is_not_migrated(bare: str, words: str) -> None:
    with pytest.raises(CommandError) as raised:
        call_command(*words.split(), "--database", bare, skip_checks=True)
    text = str(raised.value)
    assert text.startswith("The database 'bare' has no tables of the queue. Run manage.py migrate --database bare;"), (
        text
    )
    assert raised.value.returncode == (1 if words == "runqueueworker" else 3)


def test_a_verb_says_that_the_database_is_not_migrated(bare: str) -> None:
    for verb in (lambda: enqueue("h", using=bare), lambda: dequeue(using=bare), lambda: metrics(using=bare)):
        with pytest.raises(ProgrammingError) as raised:
            verb()
        assert str(raised.value).startswith("The database 'bare' does not have the function pgqueue_"), raised.value
        assert "run manage.py migrate" in str(raised.value)
        assert raised.value.__cause__.sqlstate == "42883"  # type: ignore[union-attr]  # psycopg's
    with pytest.raises(ProgrammingError, match="does not have the table pgqueue_channel of this release"):
        queue_names(using=bare)
    with pytest.raises(ProgrammingError, match='relation "shop_order" does not exist'):
        call(bare, "SELECT 1 FROM shop_order")


def test_the_doctor_has_one_finding(bare: str) -> None:
    [finding] = examine(using=bare).findings
    assert (finding.code, finding.severity.word) == ("not_migrated", "critical")
    assert finding.action.startswith("Run manage.py migrate --database bare;")


@pytest.mark.parametrize("processes", [0, 1])
def test_a_worker_ends_with_status_1(bare: str, environment: dict[str, str], processes: int) -> None:
    url = urlsplit(environment["DATABASE_URL"])._replace(path=f"/{BARE}").geturl()
    command = [sys.executable, "-m", "django", "runqueueworker", "--skip-checks", f"--processes={processes}"]
    ended = subprocess.run(
        command,
        env={**environment, "DATABASE_URL": url, "PYTHONPATH": "testproject"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(
        "CommandError: The database 'default' has no tables of the queue. Run manage.py migrate"
    )
    assert len(ended.stderr.splitlines()) == 1


def test_half_a_migration_is_named(problem: Callable[[str], str]) -> None:
    text = problem("DELETE FROM django_migrations WHERE app = 'pgqueue' AND name LIKE '0003%%'")
    assert text.startswith("1 of ")
    assert "migrations of the queue are not applied to the database 'default': 0003_" in text
    assert "Run manage.py migrate;" in text


def test_a_database_of_a_newer_release_will_do(problem: Callable[[str], str]) -> None:
    assert problem("INSERT INTO django_migrations (app, name, applied) VALUES ('pgqueue', '9999_later', now())") == ""


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("DROP TABLE pgqueue_message CASCADE", "table pgqueue_message"),
        ("DROP FUNCTION pgqueue_dequeue", "function pgqueue_dequeue"),
    ],
)
def test_a_missing_object_of_recorded_migrations_points_to_the_search_path(
    problem: Callable[[str], str], statement: str, absent: str
) -> None:
    text = problem(statement)
    assert f"has no {absent} in its search_path, although its migrations are recorded" in text
    assert "search_path" in text


def test_a_role_that_may_not_read_the_migrations_is_not_refused(problem: Callable[[str], str]) -> None:
    assert problem("CREATE ROLE pgqueue_test_modest; SET LOCAL ROLE pgqueue_test_modest") == ""


def test_a_database_of_another_kind_is_named(settings: Any, django_db_blocker: Any) -> None:
    connections.settings["lite"] = {
        **connections.settings["default"], "ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "OPTIONS": {},
    }  # fmt: skip
    try:
        found = find_schema_problem("lite")
    finally:
        del connections["lite"]
        del connections.settings["lite"]
    assert found is not None
    assert found.problem == "The database 'lite' is sqlite, and the queue needs PostgreSQL."
