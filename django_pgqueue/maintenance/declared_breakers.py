"""Update the breakers from the declarations in code, when a worker starts and after migrate."""

from __future__ import annotations

import logging

from django_pgqueue import handlers
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.breakers import breaker_set
from django_pgqueue.models import SharedLimit
from django_pgqueue.sql.call import alias

COLUMNS = ("breaker_handler", "breaker_failures", "breaker_within", "breaker_pause", "per")
logger = logging.getLogger("django_pgqueue.maintenance")


def sync_breakers(using: str | None = None) -> int:
    """Write the breakers that ``@handler`` declares to the database. Returns how many changed.

    ``using``: database alias; default: the queue's. The breaker of a handler of this process that declares none is
    dropped; those of handlers that only other processes have stay. An open breaker stays open.
    """
    rows = SharedLimit.objects.using(alias(using)).filter(breaker_failures__isnull=False, parent_id=None)
    known = {row[0]: row[1:] for row in rows.values_list(*COLUMNS)}
    changed = 0
    # In the order of names, so that two workers that start never wait in a circle.
    for name in handlers.names():
        declared = handlers.get(name).breaker
        given = declared and (declared.failures, declared.within, declared.pause, declared.per)
        if given == known.get(name):
            continue
        try:
            breaker_set(name, declared, using=using)
        except PgQueueError as error:
            logger.error(
                "the breaker of %r is not written to the database: %s", name, error, extra={"event": "breaker_invalid"}
            )
            continue
        changed += 1
    if changed:
        logger.info("breakers in code: %d changed", changed, extra={"event": "breakers_synced"})
    return changed
