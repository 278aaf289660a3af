"""Checks before a worker starts: the queues that it is asked to serve, and the database."""

from __future__ import annotations

import logging
from argparse import ArgumentTypeError

from django.core.management.base import CommandError
from django.db import Error

from django_pgqueue.checks.migrated import find_schema_problem
from django_pgqueue.lifecycle.queue_names import queue_names
from django_pgqueue.models import Queue, Schedule
from django_pgqueue.sql.call import primary
from django_pgqueue.worker.options import ALL

logger = logging.getLogger("django_pgqueue.worker")

DEFAULT = "default"


def queue_name(text: str) -> str:
    """Return ``text``, the value of an option. Raises ArgumentTypeError when it is empty."""
    if not text.strip():
        raise ArgumentTypeError(f"an empty name is not a queue; leave the option out for {DEFAULT!r}, or give {ALL!r}")
    return text


def chosen_queues(queues: list[str] | None, excluded: list[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which queues to serve, and which not: without ``queues`` the default one, or all but the ``excluded``."""
    wanted = tuple(dict.fromkeys(queues or [ALL if excluded else DEFAULT]))
    if ALL in wanted:
        wanted = (ALL,)
    unwanted = tuple(dict.fromkeys(excluded or []))
    if ALL in unwanted or set(wanted) <= set(unwanted):
        raise CommandError("--exclude-queue leaves no queue to serve. Exclude fewer, or add --queue.")
    return wanted, unwanted


def check_database(using: str, queues: tuple[str, ...]) -> None:
    """Raise CommandError when the database is not the queue's or not migrated, and warn of ``queues`` without channel.

    A server that does not answer is only logged: the worker waits for it, as it does when it goes away later.
    """
    try:
        found = find_schema_problem(using)
        if found is not None:
            raise CommandError(f"{found.problem} {found.action}")
        warn_of_unknown(queues, using)
    except Error as error:
        extra = {"event": "database_awaited"}
        logger.warning("the database %r does not answer, waiting for it: %s", using, primary(error), extra=extra)


def warn_of_unknown(queues: tuple[str, ...], using: str) -> None:
    """Log which of the queues have neither a channel nor a row nor a schedule: the name may be misspelt."""
    known = set(queue_names(using=using)) | {DEFAULT, ALL}
    known.update(Queue.objects.using(using).filter(name__in=queues).values_list("name", flat=True))
    known.update(Schedule.objects.using(using).filter(queue__in=queues).values_list("queue", flat=True))
    for name in queues:
        if name not in known:
            logger.warning(
                "there is no queue %r yet: if the name is right, it begins with its first message. Queues: %s",
                name, ", ".join(sorted(known - {ALL})), extra={"event": "queue_unknown", "queue": name},
            )  # fmt: skip
