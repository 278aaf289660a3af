"""Compare the database with the state that this release's migrations make."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from django.apps import apps
from django.db import connections, router
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from django_pgqueue.sql.call import call
from django_pgqueue.sql.files import FLOW, FOLDERS, PIPELINE, QUEUE

NAMES = {QUEUE: "django_pgqueue", PIPELINE: "django_pgqueue.pipeline", FLOW: "django_pgqueue.flow"}
# This role may lack the right to read the recorded migrations; the last two columns are then the only evidence.
LOOK = """
SELECT to_regclass('django_migrations') IS NOT NULL,
    has_table_privilege(to_regclass('django_migrations'), 'SELECT'),
    to_regclass('pgqueue_message') IS NOT NULL,
    to_regproc('pgqueue_dequeue') IS NOT NULL
"""


def install_text(app: str) -> str:
    """Return the sentence that says to install an optional app. ``app``: its label."""
    return f'Add "{NAMES[app]}" to INSTALLED_APPS and run manage.py migrate.'


INSTALL_PIPELINE = install_text(PIPELINE)


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """Hold why the queue cannot work with a database (``problem``), and what to do (``action``). Both are sentences."""

    problem: str
    action: str


def is_migrated(database: str, app: str = QUEUE) -> bool:
    """Return whether all migrations of the app are applied, and none that only a newer release has."""
    known = known_migrations(app)
    return known is not None and known == applied_migrations(database, app)


def migrated_apps(database: str) -> list[str]:
    """Return the labels of the queue's installed apps whose tables and functions are those of this release."""
    return [app for app in FOLDERS if apps.is_installed(NAMES[app]) and is_migrated(database, app)]


def find_schema_problem(database: str) -> SchemaProblem | None:
    """Return why this release cannot work with the database, or None if it can.

    It can work with a database that a newer release has migrated: the functions that this release calls are still
    there. Raises the database's error when it does not answer.
    """
    vendor = connections[database].vendor
    if vendor != "postgresql":
        return SchemaProblem(
            f"The database {database!r} is {vendor}, and the queue needs PostgreSQL.",
            f"If the queue is in another database, {NAMING}.",
        )
    [(is_recorded, is_readable, has_table, has_function)] = call(database, LOOK)
    known = known_migrations() or set()
    missing = known - applied_migrations(database) if is_recorded and is_readable else set()
    if not (is_recorded or has_table or has_function) or (known and missing == known):
        return SchemaProblem(f"The database {database!r} has no tables of the queue.", migrate(database))
    if missing:
        return missing_migrations(database, "the queue", missing, known)
    if not (has_table and has_function):
        absent = "function pgqueue_dequeue" if has_table else "table pgqueue_message"
        return SchemaProblem(
            f"The database {database!r} has no {absent} in its search_path, although its migrations are recorded.",
            f"If the queue is in another schema, add that to the search_path; if in another database, {NAMING}.",
        )
    return None


def find_app_problem(database: str, app: str) -> SchemaProblem | None:
    """Return why an optional app cannot work with the database, which has the queue, or None if it can.

    ``app``: its label. Raises the database's error when it does not answer.
    """
    if not apps.is_installed(NAMES[app]):
        return SchemaProblem(f"The app {NAMES[app]!r} is not installed.", install_text(app))
    known = known_migrations(app) or set()
    missing = known - applied_migrations(database, app)
    return missing_migrations(database, NAMES[app], missing, known) if missing else None


def optional_problems(database: str, *labels: str) -> Iterator[SchemaProblem]:
    """Yield why installed optional apps cannot work with the database. A router may keep an app out of it.

    ``labels``: of the apps. Raises the database's error when it does not answer.
    """
    for label in labels:
        if apps.is_installed(NAMES[label]) and router.allow_migrate(database, label):
            problem = find_app_problem(database, label)
            if problem is not None:
                yield problem


def missing_migrations(database: str, whose: str, missing: set[str], known: set[str]) -> SchemaProblem:
    """Return the problem that migrations are not applied. ``whose``: "the queue", or the name of an app."""
    return SchemaProblem(
        f"{len(missing)} of {len(known)} migrations of {whose} are not applied to the database {database!r}: "
        f"{', '.join(sorted(missing))}.",
        migrate(database),
    )


NAMING = '--database or the setting DJANGO_PGQUEUE["DATABASE"] names it'


def migrate(database: str) -> str:
    """Return the sentence that says to migrate this database."""
    option = "" if database == "default" else f" --database {database}"
    return f"Run manage.py migrate{option}; if the queue is in another database, {NAMING}."


def known_migrations(app: str = QUEUE) -> set[str] | None:
    """Return the names of this release's migrations; None if the project has switched them off."""
    name, _ = MigrationLoader.migrations_module(app)
    if name is None:
        return None
    return {module.name for module in pkgutil.iter_modules(import_module(name).__path__) if module.name[0] not in "_~"}


def applied_migrations(database: str, app: str = QUEUE) -> set[str]:
    """Return the names of the app's migrations that are recorded in the database."""
    recorded = MigrationRecorder(connections[database]).applied_migrations()
    return {migration for label, migration in recorded if label == app}
