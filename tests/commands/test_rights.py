"""The command that grants. The effect of the rights is tested in tests/security."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from django_pgqueue.management.starting import check_rights
from django_pgqueue.sql.operations import install
from tests.support.cases import cases
from tests.support.commands import pgqueue
from tests.support.sql import sql

pytestmark = pytest.mark.django_db
ROLE = 'pgqueue "test" grantee'
QUOTED = '"pgqueue ""test"" grantee"'


def grant(kind: str, *arguments: object) -> str:
    return pgqueue("grant", kind, *arguments)


def rights(kind: str, role: str = ROLE) -> str:
    return pgqueue("rights", kind, role)


@pytest.fixture(autouse=True)
def _role() -> None:
    """Rolled back with the rest of the test."""
    sql(f"CREATE ROLE {QUOTED} LOGIN")


def test_of_a_dry_run_the_statements_are_printed_and_nothing_is_granted() -> None:
    printed = grant("producer", ROLE, "--dry-run")
    assert 'GRANT INSERT ("channel_id", "handler", ' in printed
    assert all(part.strip().endswith(f"TO {QUOTED}") for part in printed.rstrip(";").split(";\n"))
    assert "lease_token" not in printed
    with pytest.raises(CommandError, match="lacks 14 right"):
        rights("producer")


@cases("kind", ["producer", "worker", "operator", "reader", "pipeline"])
def test_granted_checked_again_and_revoked(kind: str) -> None:
    for _ in range(2):
        assert grant(kind, ROLE) == f"{ROLE!r} is a {kind} now."
    assert rights(kind) == f"{ROLE!r} has all rights of a {kind}."
    assert "is no" in pgqueue("revoke", kind, ROLE)
    left = "SELECT count(*) FROM information_schema.{}_privileges WHERE grantee = '" + ROLE + "'"
    assert [sql(left.format(what)) for what in ("table", "column", "routine")] == [[(0,)]] * 3


def test_missing_rights_are_listed_for_each_verb() -> None:
    grant("worker", ROLE)
    sql(f"REVOKE EXECUTE ON FUNCTION pgqueue_heartbeat FROM {QUOTED}")
    sql(f"REVOKE INSERT (payload) ON pgqueue_message FROM {QUOTED}")
    sql(f"REVOKE DELETE ON pgqueue_worker FROM {QUOTED}")
    output = StringIO()
    with pytest.raises(CommandError, match="lacks 3 right"):
        call_command("pgqueue", "rights", "worker", ROLE, stdout=output)
    assert output.getvalue().splitlines() == [
        "missing: EXECUTE on pgqueue_heartbeat (to heartbeat)",
        "missing: INSERT (payload) on pgqueue_message (to enqueue by a plain INSERT or COPY)",
        "missing: DELETE on pgqueue_worker (to register itself)",
    ]


def test_a_worker_does_not_start_without_a_right_that_each_of_its_looks_needs() -> None:
    grant("worker", ROLE)
    sql(f"REVOKE EXECUTE ON FUNCTION pgqueue_dequeue_matching FROM {QUOTED}")
    sql(f"REVOKE SELECT ON pgqueue_queue, pgqueue_channel FROM {QUOTED}")
    sql(f"REVOKE SELECT (id, queue, name) ON pgqueue_channel FROM {QUOTED}")
    sql(f"SET LOCAL ROLE {QUOTED}")
    lacking = (
        "lacks 3 right(s) of a worker: EXECUTE on pgqueue_dequeue_matching, SELECT on pgqueue_queue, "
        "SELECT (queue) on pgqueue_channel."
    )
    with pytest.raises(CommandError, match=re.escape(lacking)):
        check_rights("default")


def test_rights_that_exceed_the_role_are_listed() -> None:
    grant("reader", ROLE)
    sql(f"GRANT ALL ON pgqueue_message TO {QUOTED}")
    lines = rights("reader").splitlines()
    assert lines[:2] == [f"more than a reader needs: {word} on pgqueue_message" for word in ("INSERT", "UPDATE")]


def test_mistakes_are_one_clear_line() -> None:
    with pytest.raises(CommandError, match='CREATE ROLE "nobody; --" LOGIN'):
        grant("producer", "nobody; --")
    with pytest.raises(CommandError, match="no database 'other'"):
        grant("producer", ROLE, "--database", "other")


def test_a_function_that_is_installed_anew_keeps_its_grants() -> None:
    """An upgrade must not lock workers out."""
    grant("worker", ROLE)
    with connection.schema_editor(atomic=False) as editor:
        for name in ("pgqueue_dequeue", "pgqueue_message_arrived", "pgqueue_take"):
            install(editor, name, 1)
    assert "has all rights" in rights("worker")
    assert sql("SELECT has_function_privilege('public', 'pgqueue_take'::regproc, 'EXECUTE')") == [(False,)]


@pytest.mark.django_db
def test_the_pipeline_is_no_kind_of_role_where_it_is_not_migrated() -> None:
    sql("DROP TABLE pgqueue_lake CASCADE")
    sql("DELETE FROM django_migrations WHERE app = 'pgqueue_pipeline'")
    with pytest.raises(
        CommandError, match=r"not in the database 'default'\. 2 of 2 migrations .* Run manage.py migrate"
    ):
        grant("pipeline", ROLE)
    assert "pgqueue_lake" not in grant("reader", ROLE, "--dry-run")
