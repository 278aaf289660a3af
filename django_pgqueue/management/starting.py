"""Check the queues that a worker is to serve, and the database, before it starts."""

from __future__ import annotations

import logging
from argparse import ArgumentTypeError

from django.core.management.base import CommandError
from django.db import Error

from django_pgqueue.checks.migrated import find_schema_problem
from django_pgqueue.checks.rights import grant_command, missing_rights, own_role, rights_text
from django_pgqueue.lifecycle.queues import queue_names
from django_pgqueue.models import Queue, Schedule
from django_pgqueue.sql.call import primary
from django_pgqueue.sql.roles import SERVING, WORKER
from django_pgqueue.worker.options import ALL

logger = logging.getLogger("django_pgqueue.worker")

DEFAULT = "default"


def queue_name(text: str) -> str:
    """Return ``text``, the value of an option. Raises ArgumentTypeError when it is empty."""
    if not text.strip():
        raise ArgumentTypeError(f"an empty name is not a queue; leave the option out for {DEFAULT!r}, or give {ALL!r}")
    return text


def chosen_queues(queues: list[str] | None, excluded: list[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the queues to serve and those to leave out: without ``queues`` the default one, or all but the
    ``excluded``. Raises CommandError if no queue is left."""
    wanted = tuple(dict.fromkeys(queues or [ALL if excluded else DEFAULT]))
    if ALL in wanted:
        wanted = (ALL,)
    unwanted = tuple(dict.fromkeys(excluded or []))
    if ALL in unwanted or set(wanted) <= set(unwanted):
        raise CommandError("--exclude-queue leaves no queue to serve. Exclude fewer, or add --queue.")
    return wanted, unwanted


def check_database(using: str, queues: tuple[str, ...]) -> None:
    """Raise CommandError if the database is not migrated or not the queue's, or the role may not lease or settle.

    Other rights of a worker that the role lacks, and ``queues`` without a channel, are logged as warnings. A server
    that does not answer is only logged: the worker waits for it, as it does during a later outage.
    """
    try:
        found = find_schema_problem(using)
        if found is not None:
            raise CommandError(f"{found.problem} {found.action}")
        check_rights(using)
        warn_of_unknown(queues, using)
    except Error as error:
        extra = {"event": "database_awaited"}
        logger.warning("the database %r does not answer; waiting for it: %s", using, primary(error), extra=extra)


def check_rights(using: str) -> None:
    """Raise CommandError if the role of this connection lacks a right that each lease or settlement needs.

    Other rights of a worker that it lacks are logged.
    """
    role = own_role(using)
    if role is None:
        return
    for kind in (SERVING, WORKER):
        missing = missing_rights(kind, role, using)
        if not missing:
            continue
        problem = f"The role {role!r} lacks {len(missing)} right(s) of a worker: {rights_text(missing)}."
        action = f"As the owner of the tables, run {grant_command(kind, role)}."
        if kind is SERVING:
            raise CommandError(f"{problem} {action}")
        logger.warning("%s %s", problem, action, extra={"event": "rights_missing"})


def warn_of_unknown(queues: tuple[str, ...], using: str) -> None:
    """Log the queues that have no channel, no row and no schedule: their names may be misspelt."""
    known = set(queue_names(using=using)) | {DEFAULT, ALL}
    known.update(Queue.objects.using(using).filter(name__in=queues).values_list("name", flat=True))
    known.update(Schedule.objects.using(using).filter(queue__in=queues).values_list("queue", flat=True))
    for name in queues:
        if name not in known:
            logger.warning(
                "there is no queue %r yet; if the name is right, its first message creates it. Queues: %s",
                name, ", ".join(sorted(known - {ALL})), extra={"event": "queue_unknown", "queue": name},
            )  # fmt: skip
