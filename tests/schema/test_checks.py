"""Each check is triggered for real, and silent on a healthy database."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, connections
from django.test import override_settings

from django_pgqueue import checks
from django_pgqueue.checks import configuration, server
from django_pgqueue.conf import DEFAULTS
from django_pgqueue.embedded import temporary_cluster

REPOSITORY = Path(__file__).parents[2]
# The throw-away server of the tests may run without fsync; these two are then right to complain.
UNSAFE = {"pgqueue.W010", "pgqueue.W011"}


def ours(databases: list[str] | None = None) -> dict[str, CheckMessage]:
    """What Django reports about the queue, by id."""
    found = {}
    for message in run_checks(databases=databases):
        if message.id.startswith("pgqueue."):
            assert message.hint, f"{message.id} does not say what to do"
            found[message.id] = message
    return found


def of_database() -> dict[str, CheckMessage]:
    return {key: message for key, message in ours(["default"]).items() if key not in UNSAFE}


def sql(statement: str, *parameters: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return cursor.fetchone() if cursor.description else None


def manage(*arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "testproject" / "manage.py"), *arguments],
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


# A healthy database


@pytest.mark.django_db
def test_a_healthy_project_hears_nothing() -> None:
    assert ours() == {}
    assert of_database() == {}


def test_unsafe_settings_of_the_server_are_named_as_they_are(db: None) -> None:
    off = {name for name in ("fsync", "full_page_writes") if sql(f"SHOW {name}") == ("off",)}
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


# Settings


@pytest.mark.parametrize(
    ("given", "problem", "words"),
    [
        ([], "pgqueue.E001", "not a dict but list"),
        ({"LEAES": timedelta(seconds=5)}, "pgqueue.E002", "'LEAES'"),
        ({5: 5}, "pgqueue.E002", "5"),
        ({"LEASE": 15}, "pgqueue.E003", "timedelta longer than zero"),
        ({"LEASE": timedelta(0)}, "pgqueue.E003", "timedelta longer than zero"),
        ({"LEASE": None}, "pgqueue.E003", "timedelta longer than zero"),
        ({"ARCHIVE_RETENTION": 30}, "pgqueue.E003", "or None"),
        ({"MAX_ATTEMPTS": 0}, "pgqueue.E003", "at least 1"),
        ({"MAX_ATTEMPTS": True}, "pgqueue.E003", "at least 1"),
        ({"AUTO_CREATE_CHANNELS": "yes"}, "pgqueue.E003", "True or False"),
        ({"DATABASE": 5}, "pgqueue.E003", "database alias"),
        ({"LISTEN_DATABASE": True}, "pgqueue.E003", "alias or None"),
        ({"NOTIFY": "sometimes"}, "pgqueue.E003", "waiting"),
        ({"ENQUEUE_CONTEXT": "shop.tenant"}, "pgqueue.E003", "list of dotted paths"),
        ({"HANDLER_MIDDLEWARE": [7]}, "pgqueue.E003", "list of dotted paths"),
        ({"SET_LOCAL": {"app.tenant; DROP": "tenant"}}, "pgqueue.E003", "PostgreSQL's settings"),
        ({"SET_LOCAL": {"app.tenant": None}}, "pgqueue.E003", "PostgreSQL's settings"),
        ({"HANDLER_MIDDLEWARE": ["nowhere.at_all"]}, "pgqueue.E009", "No module named 'nowhere'"),
        ({"ENQUEUE_CONTEXT": ["django_pgqueue.__version__"]}, "pgqueue.E009", "cannot be called"),
        ({"LAKE": 5}, "pgqueue.E003", "a path or None"),
        ({"LAKE": ""}, "pgqueue.E003", "a path or None"),
        ({"KEEP_UNTIL_EXPORTED": "yes"}, "pgqueue.E003", "True or False"),
        ({"TRACE_URL": "https://jaeger.example.org/"}, "pgqueue.E003", "{trace_id}"),
        ({"TRACE_URL": "javascript:alert('{trace_id}')"}, "pgqueue.E003", "web address"),
        ({"SLA": {"mails": 30}}, "pgqueue.E003", "timedeltas"),
        ({"SLA": {"": timedelta(seconds=1)}}, "pgqueue.E003", "timedeltas"),
        ({"DATABASE": "nowhere"}, "pgqueue.E004", "no such alias"),
        ({"LISTEN_DATABASE": "nowhere"}, "pgqueue.E004", "no such alias"),
    ],
)
def test_a_wrong_setting_is_named(given: Any, problem: str, words: str) -> None:
    with override_settings(DJANGO_PGQUEUE=given):
        found = ours(["default"])
    assert list(found) == [problem]
    assert words in found[problem].msg


@pytest.mark.parametrize(
    "given",
    [
        {},
        DEFAULTS,
        {
            "DATABASE": "default",
            "NOTIFY": "never",
            "LISTEN_DATABASE": None,
            "ARCHIVE_RETENTION": None,
            "MAX_ATTEMPTS": 1,
        },
        {
            "ENQUEUE_CONTEXT": ["django_pgqueue.contrib.context.trace.capture", dict],
            "HANDLER_MIDDLEWARE": ("django_pgqueue.contrib.context.set_local.restore",),
            "SET_LOCAL": {"role": "role", "app.tenant": "tenant"},
        },
        {"AUTO_CREATE_CHANNELS": True, "LEASE": timedelta(milliseconds=1), "DEAD_LETTER_RETENTION": timedelta(days=1)},
        {"LAKE": Path("/srv/lake"), "KEEP_UNTIL_EXPORTED": True, "SLA": {"mails/vip": timedelta(seconds=10)}},
    ],
)
def test_right_settings_are_taken(given: dict[str, Any]) -> None:
    with override_settings(DJANGO_PGQUEUE=given):
        assert ours() == {}


def test_retention_that_waits_for_a_lake_that_is_not_set() -> None:
    with override_settings(DJANGO_PGQUEUE={"KEEP_UNTIL_EXPORTED": True}):
        assert "grows for ever" in ours()["pgqueue.W003"].msg


def test_a_lake_without_spark() -> None:
    program = """
import sys
sys.modules["pyspark"] = None
import django
from django.conf import settings
from django.core.management import call_command
settings.DJANGO_PGQUEUE = {"LAKE": "/srv/lake"}
django.setup()
call_command("check")
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "testproject.settings"}
    command, project = [sys.executable, "-c", program], REPOSITORY / "testproject"
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
    assert "pgqueue.W002" in done.stderr
    assert "pyspark cannot be imported" in done.stderr


def test_every_setting_has_a_rule() -> None:
    assert [name for name in DEFAULTS if configuration.rule_of(name) is None] == []


@pytest.fixture
def lite() -> Iterator[str]:
    connections.settings["lite"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
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


class Elsewhere:
    def db_for_write(self, model: type, **hints: Any) -> str:
        return "elsewhere"


def test_routers_that_send_messages_elsewhere() -> None:
    with override_settings(DJANGO_PGQUEUE={"DATABASE": "default"}, DATABASE_ROUTERS=[Elsewhere()]):
        assert list(ours()) == ["pgqueue.W001"]


class OnlyTheQueue:
    """All other models are on another database."""

    def db_for_write(self, model: type, **hints: Any) -> str:
        return "default" if model._meta.app_label in self.apps else "elsewhere"

    def __init__(self, *apps: str) -> None:
        self.apps = apps


def test_a_queue_that_is_apart_from_all_rows() -> None:
    with override_settings(DATABASE_ROUTERS=[OnlyTheQueue("pgqueue", "pgqueue_pipeline")]):
        assert list(ours()) == ["pgqueue.W004"]


def test_a_router_that_forgets_the_pipeline() -> None:
    with override_settings(DATABASE_ROUTERS=[OnlyTheQueue("pgqueue")]):
        found = ours()
    assert list(found) == ["pgqueue.W001"]
    assert "the routers send Lake to 'elsewhere'" in found["pgqueue.W001"].msg
    assert "for the app pgqueue_pipeline" in found["pgqueue.W001"].hint


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"LAKE": "/srv/lake"}, "sets LAKE for the pipeline"),
        ({"SLA": {"mails": timedelta(seconds=1)}}, "sets SLA for the pipeline"),
        ({"KEEP_UNTIL_EXPORTED": True}, "Retention would drop nothing."),
        ({"LAKE": "/srv/lake", "KEEP_UNTIL_EXPORTED": True}, "sets LAKE and KEEP_UNTIL_EXPORTED"),
    ],
)
def test_settings_of_the_pipeline_without_its_app(given: dict[str, Any], words: str) -> None:
    without = [name for name in settings.INSTALLED_APPS if name != "django_pgqueue.pipeline"]
    with override_settings(INSTALLED_APPS=without, DJANGO_PGQUEUE=given):
        found = ours()
    assert list(found) == ["pgqueue.E022"]
    assert words in found["pgqueue.E022"].msg
    assert 'Add "django_pgqueue.pipeline" to INSTALLED_APPS and run manage.py migrate.' in found["pgqueue.E022"].hint


def test_the_pipeline_without_the_queue_names_what_is_missing() -> None:
    without = [name for name in settings.INSTALLED_APPS if name not in ("django_pgqueue", "flights")]
    with (
        pytest.raises(ImproperlyConfigured, match='add "django_pgqueue" to INSTALLED_APPS'),
        override_settings(INSTALLED_APPS=without),
    ):
        pass


def test_settings_of_the_pipeline_that_are_off_need_no_app() -> None:
    without = [name for name in settings.INSTALLED_APPS if name != "django_pgqueue.pipeline"]
    with override_settings(INSTALLED_APPS=without, DJANGO_PGQUEUE={"LAKE": None, "KEEP_UNTIL_EXPORTED": False}):
        assert ours() == {}


# The server


@pytest.mark.django_db
def test_a_server_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "OLDEST", 99)
    assert "pgqueue.E010" in of_database()


@pytest.mark.django_db
def test_commits_that_are_not_waited_for() -> None:
    sql("SET LOCAL synchronous_commit = off")
    assert list(of_database()) == ["pgqueue.W012"]


def test_checks_of_an_unmigrated_and_of_a_missing_server() -> None:
    """`check` works before `migrate` and tells what the server's settings risk; an unreachable one is not its task."""
    with temporary_cluster(settings={"autovacuum": "off"}) as cluster:
        url = cluster.url("postgres")
        asked = manage("check", "--database", "default", url=url)
        assert asked.returncode == 0, asked.stderr
        for problem in ("pgqueue.W010", "pgqueue.W011", "pgqueue.W013"):
            assert problem in asked.stderr
        assert "pgqueue.E" not in asked.stderr
        assert "pgqueue" not in manage("check", url=url).stderr
    gone = manage("check", "--database", "default", url=url)
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


@pytest.mark.parametrize(
    ("codec", "problem"),
    [
        ("shop.codecs.Missing", "cannot be made: ModuleNotFoundError"),
        ("django_pgqueue.codecs.Place", "cannot be made: TypeError"),
        ("tests.codecs.Bare", "has no encode"),
    ],
)
def test_a_codec_that_cannot_work_is_found(settings: Any, codec: str, problem: str) -> None:
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": codec}
    found = configuration.check_settings()
    assert {message.id for message in found} == {"pgqueue.E023"}
    assert problem in found[0].msg


def test_a_codec_of_the_project_passes(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": "tests.codecs.Toy"}
    assert configuration.check_settings() == []
