"""Find the queue's database for commands, and report problems before they use it."""

from __future__ import annotations

from datetime import datetime

from django.core.management.base import CommandError
from django.db import Error, connections

from django_pgqueue.checks.migrated import find_schema_problem
from django_pgqueue.models import Channel, Queue
from django_pgqueue.sql.call import alias, call, primary

UNKNOWN_STATUS = 3
"""The exit status when the database cannot be asked; monitors read it as *unknown*."""


def known_database(name: str | None) -> str:
    """Return the alias of the queue's database: ``name``, or the one that enqueue uses.

    Raises CommandError when DATABASES has no such alias. It does not connect to the database.
    """
    using = alias(name)
    if using not in connections:
        known = ", ".join(connections)
        raise CommandError(
            f"There is no database {using!r} in DATABASES. Choose one of {known}.", returncode=UNKNOWN_STATUS
        )
    return using


def queue_database(name: str | None) -> str:
    """Return the alias of the queue's database, after a check that it answers and is migrated.

    Raises CommandError if not; the text says what to do.
    """
    using = known_database(name)
    try:
        found = find_schema_problem(using)
    except Error as error:
        raise database_error(using, error) from error
    if found is not None:
        raise CommandError(f"{found.problem} {found.action}", returncode=UNKNOWN_STATUS)
    return using


def database_error(using: str, error: Error) -> CommandError:
    """Return the CommandError for an error of the database."""
    return CommandError(f"The database {using!r} refuses: {primary(error)}", returncode=UNKNOWN_STATUS)


def has_queue(name: str, using: str) -> bool:
    """Return whether the queue has a channel, or a row of its own."""
    channels, queues = Channel.objects.using(using), Queue.objects.using(using)
    return channels.filter(queue=name).exists() or queues.filter(name=name).exists()


def clock(using: str) -> datetime:
    """Return the time of the database, because the clock of this machine may be wrong."""
    now: datetime = call(using, "SELECT clock_timestamp()")[0][0]
    return now
