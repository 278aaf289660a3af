"""How the commands find the queue's database, and say what is wrong with it before they use it."""

from __future__ import annotations

from django.core.management.base import CommandError
from django.db import Error, connections

from django_pgqueue.checks.migrated import find_schema_problem
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import primary


def known_database(name: str | None, *, status: int = 1) -> str:
    """Return the alias of the queue's database: ``name``, or the one that enqueue uses.

    Raises CommandError, with this exit ``status``, when DATABASES has no such alias. The database is not asked.
    """
    using = alias(name)
    if using not in connections:
        known = ", ".join(connections)
        raise CommandError(f"There is no database {using!r} in DATABASES. Choose one of {known}.", returncode=status)
    return using


def queue_database(name: str | None, *, status: int = 1) -> str:
    """Return the alias of the queue's database, which is there and migrated.

    Raises CommandError, with this exit ``status``, when it is not; the text says what to do.
    """
    using = known_database(name, status=status)
    try:
        found = find_schema_problem(using)
    except Error as error:
        raise refused(using, error, status=status) from error
    if found is not None:
        raise CommandError(f"{found.problem} {found.action}", returncode=status)
    return using


def refused(using: str, error: Error, *, status: int = 1) -> CommandError:
    """The error of a command whose database cannot be asked or does not do what it is asked."""
    return CommandError(f"The database {using!r} refuses: {primary(error)}", returncode=status)
