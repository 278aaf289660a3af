"""Find the queue's database for commands, and report problems before they use it."""

from __future__ import annotations

from django.core.management.base import CommandError
from django.db import Error, connections

from django_pgqueue.checks.migrated import find_schema_problem
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import primary


def known_database(name: str | None, *, status: int = 1) -> str:
    """Return the alias of the queue's database: ``name``, or the one that enqueue uses.

    Raises CommandError, with this exit ``status``, when DATABASES has no such alias. It does not connect to the
    database.
    """
    using = alias(name)
    if using not in connections:
        known = ", ".join(connections)
        raise CommandError(f"There is no database {using!r} in DATABASES. Choose one of {known}.", returncode=status)
    return using


def queue_database(name: str | None, *, status: int = 1) -> str:
    """Return the alias of the queue's database, after a check that it answers and is migrated.

    Raises CommandError, with this exit ``status``, if not; the text says what to do.
    """
    using = known_database(name, status=status)
    try:
        found = find_schema_problem(using)
    except Error as error:
        raise database_error(using, error, status=status) from error
    if found is not None:
        raise CommandError(f"{found.problem} {found.action}", returncode=status)
    return using


def database_error(using: str, error: Error, *, status: int = 1) -> CommandError:
    """Return the CommandError for an error of the database."""
    return CommandError(f"The database {using!r} refuses: {primary(error)}", returncode=status)
