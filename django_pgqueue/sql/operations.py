"""Define migration operations for the SQL files. A migration names the file and the version, so a released file never
changes."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from django_pgqueue.sql import files

# Dropping a function drops its grants, so they are saved before.
REMEMBER = """
DO $$ BEGIN PERFORM set_config('pgqueue.grantees', coalesce((
    SELECT string_agg(a.grantee::regrole::text, ', ')
    FROM pg_proc AS p, aclexplode(p.proacl) AS a
    WHERE p.oid = to_regproc('{name}') AND a.grantee NOT IN (0, p.proowner)), ''), true);
END $$
"""
# A function keeps its oid if possible: running calls look it up by the oid, and fail if it is gone.
REPLACE = """
DO $install$
DECLARE
    v_old regprocedure := to_regproc('{name}');
    v_text text := $function${text}$function$;
BEGIN
    BEGIN
        EXECUTE v_text;
    EXCEPTION WHEN invalid_function_definition THEN
        DROP ROUTINE {name};
        EXECUTE v_text;
    END;
    -- Parameters of other types make another function of the same name.
    IF (SELECT count(*) FROM pg_proc WHERE proname = '{name}' AND pronamespace = current_schema()::regnamespace) > 1
    THEN
        EXECUTE format('DROP ROUTINE %s', v_old);
    END IF;
END $install$
"""
# A function with the rights of its owner must find the owner's objects, whatever the caller's search_path is. pg_temp
# is searched first unless it is named; pg_catalog comes before all. Tables are created in the first schema.
SEAL = """
DO $$ BEGIN
    IF (SELECT p.prosecdef FROM pg_proc AS p WHERE p.oid = '{name}'::regproc) THEN
        EXECUTE format('ALTER FUNCTION {name} SET search_path = %I, pg_temp', current_schema());
    END IF;
    REVOKE ALL ON ROUTINE {name} FROM PUBLIC;
    IF current_setting('pgqueue.grantees') <> '' THEN
        EXECUTE 'GRANT EXECUTE ON ROUTINE {name} TO ' || current_setting('pgqueue.grantees');
    END IF;
END $$
"""


class LockTimeout(Operation):
    """Limit the wait of the following operations for locks of other sessions to ``seconds``.

    A session that waits for a strong lock makes all others wait behind it. With a timeout the migration fails and
    changes nothing, and can be run again. The timeout lasts to the end of the transaction, so it is not for migrations
    with ``atomic = False``.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, seconds: float = 2.0) -> None:
        self.seconds = seconds

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Do nothing: the timeout is no part of the models' state."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, app_label):
            schema_editor.execute(f"SET LOCAL lock_timeout = {round(self.seconds * 1000)}", params=None)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Do nothing: in reverse, the operations that follow are undone already."""

    def describe(self) -> str:
        return f"Wait for locks {self.seconds} seconds at most"

    @property
    def migration_name_fragment(self) -> str:
        return "lock_timeout"

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.seconds], {}


class InstallFunction(Operation):
    """Install ``<name>_vNN.sql`` of sql/functions, a function or a procedure.

    Reversed, it installs the version before; version 1 is dropped.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, name: str, version: int = 1) -> None:
        self.name = name
        self.version = version

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Do nothing: functions are no part of the models' state."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, app_label):
            install(schema_editor, self.name, self.version)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, app_label):
            if self.version > 1:
                install(schema_editor, self.name, self.version - 1)
            else:
                schema_editor.execute(f"DROP ROUTINE IF EXISTS {self.name}", params=None)

    def describe(self) -> str:
        return f"Install function {self.name} version {self.version}"

    @property
    def migration_name_fragment(self) -> str:
        return f"{self.name}_v{self.version:02}"

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.name, self.version], {}


class InstallTables(Operation):
    """Run ``sql/tables/<name>_vNN.sql``. Reversed, it drops the named tables and sequences."""

    reduces_to_sql = True
    reversible = True

    def __init__(self, name: str, version: int, drop: list[str]) -> None:
        self.name = name
        self.version = version
        self.drop = drop

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Do nothing: the models are unmanaged, and have operations of their own."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, app_label):
            schema_editor.execute(files.read_file("tables", self.name, self.version), params=None)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, app_label):
            for thing in self.drop:
                schema_editor.execute(f"DROP {thing}", params=None)

    def describe(self) -> str:
        return f"Install tables {self.name} version {self.version}"

    @property
    def migration_name_fragment(self) -> str:
        return f"{self.name}_v{self.version:02}"

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.name, self.version, self.drop], {}


class TakeTriggerFunctionsBack(Operation):
    """Drop, when reversed, the functions that django-pgtrigger made for triggers of these names, because it leaves
    them.

    It is the first of the operations that add the triggers, so that in reverse it comes after they are gone.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, *names: str) -> None:
        self.names = names

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Do nothing: functions are no part of the models' state."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Do nothing: django-pgtrigger makes the functions with its triggers."""

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, app_label):
            for name in self.names:
                schema_editor.execute(f"DROP FUNCTION IF EXISTS {name}()", params=None)

    def describe(self) -> str:
        return f"Take back the functions of the triggers {', '.join(self.names)}"

    @property
    def migration_name_fragment(self) -> str:
        return "trigger_functions"

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [*self.names], {}


def allowed(schema_editor: BaseDatabaseSchemaEditor, app_label: str) -> bool:
    """Return whether the routers allow both the queue and this app on the database."""
    from django.db import router

    return all(router.allow_migrate(schema_editor.connection.alias, label) for label in (files.QUEUE, app_label))


def install(schema_editor: BaseDatabaseSchemaEditor, name: str, version: int) -> None:
    """Replace the function, whatever its signature was. SQL bodies may name functions that are installed later.

    Roles that were granted the function before may still run it; no other role may.
    """
    text = files.read_file("functions", name, version).replace("\nCREATE ", "\nCREATE OR REPLACE ", 1)
    schema_editor.execute("SET LOCAL check_function_bodies = off", params=None)
    schema_editor.execute(REMEMBER.format(name=name), params=None)
    schema_editor.execute(REPLACE.format(name=name, text=text), params=None)
    schema_editor.execute(SEAL.format(name=name), params=None)
