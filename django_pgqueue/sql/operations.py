"""Migration operations for the SQL files: a migration names the file and the version, so a released file never
changes."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from django_pgqueue.sql import files

# A function that is dropped takes its grants along.
REMEMBER = """
DO $$ BEGIN PERFORM set_config('pgqueue.grantees', coalesce((
    SELECT string_agg(a.grantee::regrole::text, ', ')
    FROM pg_proc AS p, aclexplode(p.proacl) AS a
    WHERE p.oid = to_regproc('{name}') AND a.grantee NOT IN (0, p.proowner)), ''), true);
END $$
"""
# A function keeps its identity if it may: calls that are under way look it up by that, and fail when it is gone.
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
# What runs with the rights of its owner must find the objects of the owner, whatever is in the caller's search_path.
# pg_temp is the first place to look unless it is named; pg_catalog is before all. Tables are made in the first named.
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
    """What comes after it in its migration waits no longer than so many ``seconds`` for locks of others.

    Who waits for a strong lock lets everybody else wait behind him. It fails instead, nothing of the migration has
    happened, and it is run again. To the end of the transaction, so not for migrations with ``atomic = False``.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, seconds: float = 2.0) -> None:
        self.seconds = seconds

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """It is no part of the models' state."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, app_label):
            schema_editor.execute(f"SET LOCAL lock_timeout = {round(self.seconds * 1000)}", params=None)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Going back, what comes after it has been undone by then."""

    def describe(self) -> str:
        return f"Wait for locks {self.seconds} seconds at most"

    @property
    def migration_name_fragment(self) -> str:
        return "lock_timeout"

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.seconds], {}


class InstallFunction(Operation):
    """Installs ``sql/functions/<name>_vNN.sql``, a function or a procedure.

    Reversed, the version before comes back; version 1 is dropped.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, name: str, version: int = 1) -> None:
        self.name = name
        self.version = version

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Functions are not part of the models' state."""

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
    """Runs ``sql/tables/<name>_vNN.sql``. Reversed, the named tables and sequences are dropped."""

    reduces_to_sql = True
    reversible = True

    def __init__(self, name: str, version: int, drop: list[str]) -> None:
        self.name = name
        self.version = version
        self.drop = drop

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Their models are unmanaged, and created by operations of their own."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, app_label):
            schema_editor.execute(files.read("tables", self.name, self.version), params=None)

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
    """Reversed, drops the functions that django-pgtrigger made for triggers of these names; it leaves them behind.

    First of the operations that add the triggers, so that going back it comes after they are gone.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, *names: str) -> None:
        self.names = names

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Functions are not part of the models' state."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """django-pgtrigger makes them with its triggers."""

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
    """Where the queue is not, there is nothing that the app could work on, whatever a router says that forgot it."""
    from django.db import router

    return all(router.allow_migrate(schema_editor.connection.alias, label) for label in (files.QUEUE, app_label))


def install(schema_editor: BaseDatabaseSchemaEditor, name: str, version: int) -> None:
    """Replace the function, whatever its signature was. SQL bodies may name functions that come later.

    Who was granted the function before may still run it; nobody else may.
    """
    text = files.read("functions", name, version).replace("\nCREATE ", "\nCREATE OR REPLACE ", 1)
    schema_editor.execute("SET LOCAL check_function_bodies = off", params=None)
    schema_editor.execute(REMEMBER.format(name=name), params=None)
    schema_editor.execute(REPLACE.format(name=name, text=text), params=None)
    schema_editor.execute(SEAL.format(name=name), params=None)
