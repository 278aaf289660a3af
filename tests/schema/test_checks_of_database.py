"""Checks of the database: functions, rights, triggers, partitions, tables."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import CheckMessage
from django.core.management import call_command
from django.db import connection

from django_pgqueue.checks.functions import reinstall
from django_pgqueue.checks.server import LIVE
from django_pgqueue.sql import files
from tests.schema.test_checks import of_database
from tests.support.sessions import Connect, one
from tests.support.sql import sql, value


def trigger_of(model: str) -> str:
    [trigger] = apps.get_model("pgqueue", model)._meta.triggers
    return trigger.get_pgid(apps.get_model("pgqueue", model))


@pytest.mark.django_db
def test_a_missing_function() -> None:
    sql("DROP FUNCTION pgqueue_peek")
    found = of_database()
    assert list(found) == ["pgqueue.E011"]
    assert "pgqueue_peek" in found["pgqueue.E011"].msg
    repair(found, "pgqueue.E011")
    assert of_database() == {}


@pytest.mark.django_db
def test_a_changed_function() -> None:
    source = files.read_file("functions", "pgqueue_channel_pause", 1).replace(
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


def repair(found: dict[str, CheckMessage], code: str) -> None:
    """Do as the hint says."""
    assert list(found) == [code]
    command = re.search(r'manage\.py shell -c "([^"]+)"', found[code].hint or "")
    assert command
    call_command("shell", "-v0", command=command[1])


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
    repair(of_database(), "pgqueue.E018")
    assert of_database() == {}


@pytest.mark.django_db
def test_a_schema_in_which_every_role_may_create() -> None:
    sql("GRANT CREATE ON SCHEMA public TO PUBLIC")
    assert list(of_database()) == ["pgqueue.W018"]


@pytest.mark.parametrize("name", ["pgqueue_peek", "pgqueue_message_arrived", "pgqueue_dequeue_wait"])
@pytest.mark.django_db
def test_the_hint_for_a_changed_function_repairs_it_and_keeps_its_grants(name: str) -> None:
    sql("CREATE ROLE reader")
    sql(f"GRANT EXECUTE ON ROUTINE {name} TO reader")
    file = files.read_file("functions", name, files.latest_functions()[name])
    sql(re.sub("^CREATE ", "CREATE OR REPLACE ", file, flags=re.MULTILINE).replace("AS $$\n", "AS $$\n-- hot fix\n"))
    repair(of_database(), "pgqueue.E012")
    assert of_database() == {}
    assert value("SELECT has_function_privilege('reader', %s::regproc, 'EXECUTE')", name)


@pytest.mark.django_db(transaction=True)
def test_the_repair_of_a_function_never_leaves_it_without_its_search_path(connect: Connect) -> None:
    """Nor open to every role: another session may call it at any moment."""
    look_from_outside = """
        SELECT prosecdef AND proconfig::text LIKE '%search_path=%'
            AND NOT has_function_privilege('public', oid, 'EXECUTE')
        FROM pg_proc WHERE proname = 'pgqueue_peek'
    """
    looks: list[bool] = []
    other = connect(autocommit=True)

    def look(execute: Any, statement: str, *given: Any) -> Any:
        done = execute(statement, *given)
        looks.append(one(other, look_from_outside))
        return done

    with connection.execute_wrapper(look):
        reinstall("default", "pgqueue_peek")
    assert len(looks) >= 4
    assert all(looks)


@pytest.mark.django_db
def test_all_functions_that_a_restore_without_privileges_opened_are_repaired_at_once() -> None:
    sql("GRANT EXECUTE ON ALL ROUTINES IN SCHEMA public TO PUBLIC")
    assert list(of_database()) == ["pgqueue.E018"]
    reinstall("default")
    assert of_database() == {}


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


@pytest.mark.parametrize(("days", "problem"), [(0, "pgqueue.W014"), (1, "pgqueue.W015")])
@pytest.mark.django_db
def test_a_missing_partition(days: int, problem: str) -> None:
    name = value(
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
def test_live_messages_that_an_operator_chose_to_lose_in_a_crash() -> None:
    for table in LIVE:
        sql(f"ALTER TABLE {table} SET UNLOGGED")
    sql("ALTER SEQUENCE pgqueue_message_id_seq SET LOGGED")
    assert list(of_database()) == ["pgqueue.W016"]


@pytest.mark.parametrize("table", ["pgqueue_dead_letter", "pgqueue_floor", "pgqueue_arrival", "pgqueue_lane_seq"])
@pytest.mark.django_db
def test_a_table_that_must_stay_logged_is_reported_when_it_is_unlogged(table: str) -> None:
    sql(f"ALTER TABLE {table} SET UNLOGGED")
    found = of_database()
    assert list(found) == ["pgqueue.W019"]
    assert f"must not be: {table}. " in found["pgqueue.W019"].msg


@pytest.mark.django_db
def test_tables_without_autovacuum() -> None:
    sql("ALTER TABLE pgqueue_lane SET (autovacuum_enabled = false)")
    found = of_database()
    assert list(found) == ["pgqueue.W017"]
    assert "pgqueue_lane" in found["pgqueue.W017"].msg


@pytest.mark.django_db
def test_a_fault_that_migrate_will_repair_does_not_keep_migrate_from_running() -> None:
    sql("DROP FUNCTION pgqueue_peek")
    sql("DELETE FROM django_migrations WHERE app = 'pgqueue' AND name LIKE '0003%'")
    assert of_database() == {}


@pytest.mark.django_db
def test_the_database_of_a_newer_release_is_not_called_changed() -> None:
    sql("DROP FUNCTION pgqueue_peek")
    sql("INSERT INTO django_migrations (app, name, applied) VALUES ('pgqueue', '9999_future', now())")
    assert of_database() == {}
