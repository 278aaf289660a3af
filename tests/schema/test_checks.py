"""Each check is triggered for real, and silent on a healthy database."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django.db import connection, connections
from django.test import override_settings

from django_pgqueue import checks
from django_pgqueue.checks import configuration, server
from django_pgqueue.conf import DEFAULTS
from django_pgqueue.embedded import temporary_cluster
from django_pgqueue.sql import files

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


def trigger_of(model: str) -> str:
    [trigger] = apps.get_model("pgqueue", model)._meta.triggers
    return trigger.get_pgid(apps.get_model("pgqueue", model))


def manage(*arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "testproject" / "manage.py"), *arguments],
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
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
    del connections.settings["lite"]
    del connections["lite"]


def test_a_database_that_is_not_postgresql(lite: str) -> None:
    with override_settings(DJANGO_PGQUEUE={"DATABASE": lite}):
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
        return "default" if model._meta.app_label == "pgqueue" else "elsewhere"


def test_a_queue_that_is_apart_from_all_rows() -> None:
    with override_settings(DATABASE_ROUTERS=[OnlyTheQueue()]):
        assert list(ours()) == ["pgqueue.W004"]


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


@pytest.mark.django_db
def test_a_missing_function() -> None:
    sql("DROP FUNCTION pgqueue_peek")
    found = of_database()
    assert list(found) == ["pgqueue.E011"]
    assert "pgqueue_peek" in found["pgqueue.E011"].msg
    assert "pgqueue_peek_v01.sql" in found["pgqueue.E011"].hint


@pytest.mark.django_db
def test_a_function_outside_of_the_search_path() -> None:
    sql("CREATE SCHEMA elsewhere")
    sql("ALTER FUNCTION pgqueue_peek SET SCHEMA elsewhere")
    assert list(of_database()) == ["pgqueue.E011"]


@pytest.mark.django_db
def test_a_changed_function() -> None:
    source = files.read("functions", "pgqueue_channel_pause", 1).replace(
        "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"
    )
    sql(source.replace("coalesce(p_reason, '')", "'hot fix'"))
    found = of_database()
    assert list(found) == ["pgqueue.E012"]
    assert "pgqueue_channel_pause" in found["pgqueue.E012"].msg


@pytest.mark.django_db
def test_a_second_function_of_the_same_name() -> None:
    sql("CREATE FUNCTION pgqueue_peek(p_other integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'")
    assert list(of_database()) == ["pgqueue.E013"]


def repair(found: dict[str, CheckMessage]) -> None:
    """Do as the hint says."""
    assert list(found) == ["pgqueue.E018"]
    statements = re.findall(r"((?:REVOKE|ALTER)[^;]+?)(?:; |\. Then)", found["pgqueue.E018"].hint)
    assert len(statements) == 2
    for statement in statements:
        sql(statement)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        "GRANT EXECUTE ON FUNCTION {} TO PUBLIC",
        "ALTER FUNCTION {} SECURITY INVOKER",
        "ALTER FUNCTION {} RESET search_path",
        "ALTER FUNCTION {} SET search_path = pg_temp, public",
    ],
)
def test_a_function_with_other_rights_than_it_shall_have(change: str) -> None:
    sql(change.format("pgqueue_complete"))
    repair(of_database())
    assert of_database() == {}


@pytest.mark.django_db
def test_an_internal_function_that_everybody_may_run_with_the_rights_of_its_owner() -> None:
    sql("ALTER FUNCTION pgqueue_archive SECURITY DEFINER")
    assert list(of_database()) == ["pgqueue.E018"]


@pytest.mark.django_db
def test_a_schema_in_which_everybody_may_create() -> None:
    sql("GRANT CREATE ON SCHEMA public TO PUBLIC")
    assert list(of_database()) == ["pgqueue.W018"]


@pytest.mark.parametrize("name", ["pgqueue_peek", "pgqueue_message_arrived"])
@pytest.mark.django_db
def test_the_hint_for_a_changed_function_repairs_it(name: str) -> None:
    """Its command by other means: psql would not see what this test changes."""
    file = files.read("functions", name, files.latest_functions()[name])
    replace = re.sub("^CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", file, flags=re.MULTILINE)
    sql(replace.replace("AS $$\n", "AS $$\n-- hot fix\n"))
    assert "sed 's/^CREATE FUNCTION/CREATE OR REPLACE FUNCTION/'" in of_database()["pgqueue.E012"].hint
    sql(replace)
    repair(of_database())
    assert of_database() == {}


# Triggers


@pytest.mark.parametrize("model", ["Message", "Channel"])
@pytest.mark.django_db
def test_a_missing_trigger(model: str) -> None:
    sql(f"DROP TRIGGER {trigger_of(model)} ON pgqueue_{model.lower()}")
    found = of_database()
    assert list(found) == ["pgqueue.E014"]
    call_command("pgtrigger", "install", found["pgqueue.E014"].hint.split()[-1])
    assert of_database() == {}


@pytest.mark.parametrize(
    "change",
    [
        "AFTER INSERT ON pgqueue_message REFERENCING NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION other()",
        "BEFORE INSERT ON pgqueue_message FOR EACH ROW EXECUTE FUNCTION other()",
    ],
)
@pytest.mark.django_db
def test_a_changed_trigger_that_pgtrigger_calls_installed(change: str) -> None:
    name = trigger_of("Message")
    sql("CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    sql(f"CREATE OR REPLACE TRIGGER {name} {change}")
    found = of_database()
    assert list(found) == ["pgqueue.E015"]
    assert "it runs other" in found["pgqueue.E015"].msg
    call_command("pgtrigger", "install", found["pgqueue.E015"].hint.split()[-1])
    assert of_database() == {}


@pytest.mark.parametrize("how", ["DISABLE TRIGGER {}", "DISABLE TRIGGER ALL", "ENABLE REPLICA TRIGGER {}"])
@pytest.mark.django_db
def test_a_disabled_trigger(how: str) -> None:
    sql("ALTER TABLE pgqueue_message " + how.format(trigger_of("Message")))
    found = of_database()
    assert list(found) == ["pgqueue.E016"]
    call_command("pgtrigger", "enable", found["pgqueue.E016"].hint.split()[-1])
    assert of_database() == {}


@pytest.mark.django_db
def test_a_trigger_that_was_made_by_hand() -> None:
    name = trigger_of("Message")
    [definition] = sql("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = %s", name)
    sql(f"DROP TRIGGER {name} ON pgqueue_message")
    sql(definition.replace("pgqueue_message_arrived()", "pgqueue_message_arrived('x')"))
    assert list(of_database()) == ["pgqueue.E015"]


# Tables


@pytest.mark.parametrize(("days", "problem"), [(0, "pgqueue.W014"), (1, "pgqueue.W015")])
@pytest.mark.django_db
def test_a_missing_partition(days: int, problem: str) -> None:
    [name] = sql(
        "SELECT 'pgqueue_archived_message_' || to_char((clock_timestamp() AT TIME ZONE 'UTC')::date + %s, 'YYYYMMDD')",
        days,
    )
    sql("CREATE TABLE others (day date) PARTITION BY RANGE (day)")
    sql("CREATE TABLE others_rest PARTITION OF others DEFAULT")
    sql(f"ALTER TABLE pgqueue_archived_message DETACH PARTITION {name}")
    assert list(of_database()) == [problem]
    sql(f"DROP TABLE {name}")
    assert list(of_database()) == [problem]
    sql("SELECT pgqueue_prune()")
    assert of_database() == {}


@pytest.mark.django_db
def test_a_default_partition_takes_every_day() -> None:
    [name] = sql(
        "SELECT 'pgqueue_archived_message_' || to_char((clock_timestamp() AT TIME ZONE 'UTC')::date, 'YYYYMMDD')"
    )
    sql(f"DROP TABLE {name}")
    sql("CREATE TABLE pgqueue_rest PARTITION OF pgqueue_archived_message DEFAULT")
    assert of_database() == {}


@pytest.mark.django_db
def test_live_messages_that_somebody_chose_to_lose_in_a_crash() -> None:
    call_command("queuedurability", "--unlogged", "--yes", stdout=StringIO(), skip_checks=True)
    assert list(of_database()) == ["pgqueue.W016"]
    call_command("queuedurability", "--logged", "--yes", stdout=StringIO(), skip_checks=True)
    assert of_database() == {}


@pytest.mark.parametrize("table", ["pgqueue_dead_letter", "pgqueue_floor", "pgqueue_arrival", "pgqueue_lane_seq"])
@pytest.mark.django_db
def test_what_nobody_may_choose_to_lose(table: str) -> None:
    sql(f"ALTER TABLE {table} SET UNLOGGED")
    found = of_database()
    assert list(found) == ["pgqueue.W019"]
    assert f"to be: {table}. " in found["pgqueue.W019"].msg


@pytest.mark.django_db
def test_ids_that_a_crash_would_give_twice() -> None:
    sql("ALTER TABLE pgqueue_message SET UNLOGGED")
    found = of_database()
    assert list(found) == ["pgqueue.W016", "pgqueue.W019"]
    assert "to be: pgqueue_message_id_seq. " in found["pgqueue.W019"].msg
    assert "queuedurability --unlogged --yes" in found["pgqueue.W019"].hint


@pytest.mark.django_db
def test_stages_of_bulk_enqueues_are_as_they_shall_be() -> None:
    """They are unlogged and without autovacuum, and gone a moment later."""
    sql("SELECT pgqueue_ingest_open('job')")
    assert of_database() == {}


@pytest.mark.django_db
def test_tables_without_autovacuum() -> None:
    sql("ALTER TABLE pgqueue_lane SET (autovacuum_enabled = false)")
    found = of_database()
    assert list(found) == ["pgqueue.W017"]
    assert "pgqueue_lane" in found["pgqueue.W017"].msg


# Between two releases


@pytest.mark.django_db
def test_what_migrate_will_repair_does_not_keep_it_from_running() -> None:
    sql("DROP FUNCTION pgqueue_peek")
    sql("DELETE FROM django_migrations WHERE app = 'pgqueue' AND name LIKE '0003%'")
    assert of_database() == {}


@pytest.mark.django_db
def test_the_database_of_a_newer_release_is_not_called_changed() -> None:
    sql("DROP FUNCTION pgqueue_peek")
    sql("INSERT INTO django_migrations (app, name, applied) VALUES ('pgqueue', '9999_future', now())")
    assert of_database() == {}


# The list in the documentation


def test_the_documentation_lists_every_check() -> None:
    package = REPOSITORY / "django_pgqueue"
    paths = [*(package / "checks").glob("*.py"), package / "tasks" / "checks.py"]
    source = "".join(path.read_text() for path in paths)
    documented = (REPOSITORY / "docs" / "reference" / "checks.md").read_text()
    assert set(re.findall(r"pgqueue\.[EW]\d{3}", source)) == set(re.findall(r"pgqueue\.[EW]\d{3}", documented))
