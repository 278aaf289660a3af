"""Update the table of shared limits from the declarations in code, when a worker starts and after migrate."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from django_pgqueue import handlers, limits
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.limits import limit_pause, limit_resume, limit_set
from django_pgqueue.limits import UNDECLARED, LimitValues
from django_pgqueue.models import SharedLimit
from django_pgqueue.sql.call import alias, call

HANDLERS = "SELECT h.handler FROM pgqueue_limit_handler AS h WHERE h.limit_id = %s ORDER BY h.handler"
logger = logging.getLogger("django_pgqueue.maintenance")


@dataclass(frozen=True, slots=True)
class LimitCounts:
    """Hold the numbers of limits that were added and changed, and of those that handlers name and nothing declares."""

    added: int
    changed: int
    undeclared: int


def sync_limits(using: str | None = None) -> LimitCounts:
    """Write the limits that code and the setting LIMITS declare to the database, and which handlers have them.

    ``using``: database alias; default: the queue's. Pauses stay. A limit that is no longer declared stays, too, until
    ``limit_drop``. Several processes may call it at the same time.

    A limit that a handler names, and that neither code nor the database has, is made paused: messages of this handler
    wait, and none runs without its limit. That is logged as an error, each time, until it is declared or resumed.
    """
    database = alias(using)
    declared, problems = limits.collect_declared_limits()
    for problem in problems:
        logger.error("a limit of LIMITS is left out: %s", problem, extra={"event": "limit_invalid"})
    named = handlers.names_by_limit()
    added = changed = undeclared = 0
    # In the order of names, and one transaction each, so that two workers that start never wait in a circle.
    for name in sorted({*declared, *named}):
        try:
            known = SharedLimit.objects.using(database).filter(name=name).first()
            wrote = write_limit(name, known, declared.get(name), named.get(name, []), database)
        except PgQueueError as error:
            logger.error(
                "the limit %r is not written to the database: %s", name, error, extra={"event": "limit_invalid"}
            )
            continue
        added += known is None
        changed += wrote and known is not None
        if name not in declared and (known is None or known.pause_reason == UNDECLARED):
            undeclared += 1
            logger.error(
                "no limit is called %r, so the messages of %s wait. Declare Limit(%r, …) in handlers.py or in the "
                "setting LIMITS and restart the workers, or edit and resume it in the admin", name,
                ", ".join(named[name]), name, extra={"event": "limit_undeclared", "limit": name},
            )  # fmt: skip
    counts = LimitCounts(added, changed, undeclared)
    if added or changed:
        logger.info("limits in code: %d added, %d changed", added, changed, extra={"event": "limits_synced"})
    return counts


def write_limit(
    name: str, known: SharedLimit | None, declared: LimitValues | None, named_by: list[str], using: str
) -> bool:
    """Write what differs of one limit. Returns whether anything did.

    ``known``: its row, or None; ``declared``: what code declares, or None; ``named_by``: the handlers that name it.
    """
    given: dict[str, Any] = declared.values() if declared else {}
    differing = {what: value for what, value in given.items() if known is None or getattr(known, what) != value}
    before = [handler for (handler,) in call(using, HANDLERS, (known.pk,))] if known else []
    # Another process may have handlers that this one has not.
    wanted = sorted({*named_by, *(handler for handler in before if handlers.find(handler) is None)})
    if wanted != before:
        differing["handlers"] = wanted
    resumed = known is not None and declared is not None and known.pause_reason == UNDECLARED
    with transaction.atomic(using=using):
        if differing or known is None:
            limit_set(name, **differing, using=using)
        if known is None and declared is None:
            limit_pause(name, reason=UNDECLARED, using=using)
        if resumed:
            limit_resume(name, using=using)
    return bool(differing) or resumed
