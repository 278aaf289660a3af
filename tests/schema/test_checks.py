"""Each check is triggered for real, and silent on a healthy database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import CheckMessage, run_checks
from django.db import connections
from django.test import override_settings

from django_pgqueue import checks
from django_pgqueue.checks import server
from django_pgqueue.embedded import temporary_cluster
from tests.support.commands import manage
from tests.support.paths import REPOSITORY
from tests.support.sql import sql, value

# The throw-away server of the tests may run without fsync; these two are then right to complain.
UNSAFE = {"pgqueue.W010", "pgqueue.W011"}


def ours(databases: list[str] | None = None) -> dict[str, CheckMessage]:
    """Return the findings of Django's checks about the queue, by id."""
    found = {}
    for message in run_checks(databases=databases):
        if message.id.startswith("pgqueue."):
            assert message.hint, f"{message.id} does not say what to do"
            found[message.id] = message
    return found


def of_database() -> dict[str, CheckMessage]:
    return {key: message for key, message in ours(["default"]).items() if key not in UNSAFE}


# A healthy database


@pytest.mark.django_db
def test_a_healthy_project_hears_nothing() -> None:
    assert ours() == {}
    assert of_database() == {}


def test_unsafe_settings_of_the_server_are_named_as_they_are(db: None) -> None:
    off = {name for name in ("fsync", "full_page_writes") if value(f"SHOW {name}") == "off"}
    names = {"pgqueue.W010": "fsync", "pgqueue.W011": "full_page_writes"}
    assert {names[key] for key in ours(["default"]) if key in UNSAFE} == off


@pytest.mark.django_db
def test_without_databases_none_is_asked(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert checks.check_server(app_configs=None, databases=None) == []
        assert checks.check_objects(app_configs=None, databases=None) == []
        assert checks.check_objects(app_configs=None, databases=["other"]) == []


@pytest.mark.django_db
def test_a_check_of_other_apps_does_not_ask_about_the_queue() -> None:
    sql("DROP FUNCTION pgqueue_peek")
    assert run_checks(app_configs=[apps.get_app_config("auth")], databases=["default"]) == []
    assert "pgqueue.E011" in {
        m.id for m in run_checks(app_configs=[apps.get_app_config("pgqueue")], databases=["default"])
    }


@pytest.fixture
def lite() -> Iterator[str]:
    connections.settings["lite"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {},  # those of a worker, which another test may have left, are of PostgreSQL
    }
    yield "lite"
    connections["lite"].close()
    if connections["lite"].connection is not None:  # a database in memory is not closed otherwise
        connections["lite"].connection.close()
    del connections.settings["lite"]
    del connections["lite"]


def test_a_database_that_is_not_postgresql(lite: str, django_db_blocker: Any) -> None:
    # From Django 6.1 on, its own checks of fields ask every database.
    with override_settings(DJANGO_PGQUEUE={"DATABASE": lite}), django_db_blocker.unblock():
        found = ours()
        assert checks.check_server(app_configs=None, databases=[lite]) == []
        assert checks.check_objects(app_configs=None, databases=[lite]) == []
    assert list(found) == ["pgqueue.E005"]
    assert "django.db.backends.sqlite3" in found["pgqueue.E005"].msg


def test_psycopg2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.db.backends.postgresql.psycopg_any.is_psycopg3", False)
    assert list(ours()) == ["pgqueue.E006"]


def test_dates_without_time_zones() -> None:
    with override_settings(USE_TZ=False):
        assert list(ours()) == ["pgqueue.E007"]


# The server


@pytest.mark.django_db
def test_a_server_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "OLDEST_MAJOR", 99)
    assert "pgqueue.E010" in of_database()


@pytest.mark.django_db
def test_commits_that_are_not_waited_for() -> None:
    sql("SET LOCAL synchronous_commit = off")
    assert list(of_database()) == ["pgqueue.W012"]


@pytest.mark.django_db
def test_another_isolation_level_is_reported() -> None:
    sql("SET LOCAL default_transaction_isolation = 'repeatable read'")
    assert "'read committed'" in of_database()["pgqueue.W028"].hint


@pytest.mark.django_db
def test_triggers_that_the_session_switches_off_are_reported() -> None:
    sql("SET LOCAL session_replication_role = replica")
    assert list(of_database()) == ["pgqueue.E028"]


def test_checks_of_an_unmigrated_and_of_a_missing_server() -> None:
    """`check` works before `migrate` and reports risks of the server's settings; an unreachable one is not its task."""
    with temporary_cluster(settings={"autovacuum": "off"}) as cluster:
        url = cluster.url("postgres")
        asked = manage("check", "--database", "default", DATABASE_URL=url)
        assert asked.returncode == 0, asked.stderr
        for problem in ("pgqueue.W010", "pgqueue.W011", "pgqueue.W013"):
            assert problem in asked.stderr
        assert "pgqueue.E" not in asked.stderr
        assert "pgqueue" not in manage("check", DATABASE_URL=url).stderr
    gone = manage("check", "--database", "default", DATABASE_URL=url)
    assert (gone.returncode, "Traceback" in gone.stderr) == (0, False), gone.stderr


# Functions


# Triggers


# Tables


# Between two releases


# The list in the documentation


def test_the_documentation_lists_every_check() -> None:
    package = REPOSITORY / "django_pgqueue"
    paths = [*(package / "checks").glob("*.py"), package / "tasks" / "checks.py"]
    source = "".join(path.read_text() for path in paths)
    documented = (REPOSITORY / "docs" / "reference" / "checks.md").read_text()
    assert set(re.findall(r"pgqueue\.[EW]\d{3}", source)) == set(re.findall(r"pgqueue\.[EW]\d{3}", documented))
