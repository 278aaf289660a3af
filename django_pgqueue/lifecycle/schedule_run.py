"""schedule_run: run a schedule now."""

from __future__ import annotations

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Enqueued
from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.enqueue_bind import retry_policy
from django_pgqueue.sql.call import ask, call

SQL = """
SELECT id, outcome, refusal FROM pgqueue_schedule_run(
    %s::text, %s::integer, %s::interval, %s::float8, %s::interval, %s::boolean, %s::interval)
"""
HANDLER = "SELECT handler FROM pgqueue_schedule WHERE name = %s::text"


def schedule_run(name: str, *, using: str | None = None) -> Enqueued:
    """Enqueue the message of a schedule now, in the caller's transaction. Its next time stays as it is.

    ``name``: the schedule's; it may be disabled. ``using``: database alias; default: the queue's.

    Returns the message's id and outcome. Raises ScheduleNotFound, and what :func:`enqueue` raises.
    """
    database = alias(using)
    handler = call(database, HANDLER, (checked_text(name, "name"),))
    policy = retry_policy(handler[0][0] if handler else name)
    params = (name, *policy, settings.AUTO_CREATE_CHANNELS, settings.ENQUEUE_WAIT)
    return Enqueued(*ask(database, SQL, params)[0])
