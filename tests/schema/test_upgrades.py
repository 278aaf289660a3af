"""Limits of migrations on a queue that is at work. `verification/chaos/test_migration.py` migrates one under load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import OperationalError, connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from django_pgqueue.sql.operations import InstallFunction, InstallTables, LockTimeout
from tests.support.cases import cases

# On the first deployment all tables are empty, and no worker runs.
OF_THE_FIRST_RELEASE = "0003_triggers"
# They make something new, or replace a function, for which no session has to wait.
HARMLESS = (InstallFunction, InstallTables, LockTimeout, migrations.CreateModel, migrations.AlterModelOptions)
SLOW = {
    migrations.AddIndex: "locks out writers while it builds: AddIndexConcurrently",
    migrations.RemoveIndex: "waits with a lock that stops all: RemoveIndexConcurrently",
    migrations.AddConstraint: "reads the table under a lock that stops all: AddConstraintNotValid, ValidateConstraint",
}

Connect = Callable[..., psycopg.Connection[Any]]


def careless(migration: migrations.Migration) -> list[str]:
    """Return the operations of a migration that may stop a queue at work."""
    operations = migration.operations
    problems = [f"{type(op).__name__} {SLOW[type(op)]}" for op in operations if type(op) in SLOW]
    alters = any(not isinstance(op, HARMLESS) and "Concurrently" not in type(op).__name__ for op in operations)
    if alters and not isinstance(operations[0], LockTimeout):
        problems.append("it does not begin with LockTimeout()")
    return problems


def test_no_migration_after_the_first_release_is_careless():
    loader = MigrationLoader(None)
    ours = {name: migration for (app, name), migration in loader.disk_migrations.items() if app == "pgqueue"}
    assert OF_THE_FIRST_RELEASE in ours
    found = {name: careless(migration) for name, migration in ours.items() if name > OF_THE_FIRST_RELEASE}
    assert not [problem for problems in found.values() for problem in problems], found


@cases(
    ("operations", "problem"),
    [
        ([migrations.AddField("message", "note", models.TextField())], "LockTimeout"),
        ([migrations.RunSQL("ALTER TABLE pgqueue_message ADD COLUMN note text")], "LockTimeout"),
        ([LockTimeout(), migrations.AddIndex("message", models.Index(fields=["queue"], name="n"))], "Concurrently"),
        ([LockTimeout(), migrations.AddField("message", "note", models.TextField(null=True))], None),
        ([AddIndexConcurrently("message", models.Index(fields=["queue"], name="n"))], None),
        ([InstallFunction("pgqueue_take", 2)], None),
    ],
)  # fmt: skip
def test_a_careless_migration_is_found(operations: list[Operation], problem: str | None):
    migration = migrations.Migration("0004_next", "pgqueue")
    migration.operations = operations
    found = careless(migration)
    assert (problem in found[0]) if problem else not found


@pytest.mark.django_db(transaction=True)
def test_a_migration_that_would_have_to_wait_gives_up_and_changes_nothing(connect: Connect):
    """A session reads messages for an hour; behind a migration that waits for it, no session could enqueue."""
    reader = connect()
    reader.execute("SELECT count(*) FROM pgqueue_message")
    with pytest.raises(OperationalError, match="lock timeout"):
        add_a_column()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_attribute WHERE attrelid = 'pgqueue_message'::regclass AND attname = 'note'"
        )
        assert cursor.fetchone() == (0,)
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def add_a_column() -> None:
    with connection.schema_editor(atomic=True) as editor:
        LockTimeout(0.2).database_forwards("pgqueue", editor, None, None)
        editor.execute("ALTER TABLE pgqueue_message ADD COLUMN careless_note text", params=None)


def test_the_lock_timeout_can_be_written_into_a_migration():
    name, arguments, options = LockTimeout(5.0).deconstruct()
    assert (name, arguments, options) == ("LockTimeout", [5.0], {})
