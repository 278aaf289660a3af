"""schedule_run: run a schedule now."""

from __future__ import annotations

from typing import Any

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Enqueued, NewMessage
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.enqueue import bind
from django_pgqueue.sql.call import call

SQL = "SELECT id, outcome FROM pgqueue_schedule_run(%s::text, %s::integer, %s::interval, %s::boolean)"
HANDLER = "SELECT handler FROM pgqueue_schedule WHERE name = %s::text"


def schedule_run(name: str, *, using: str | None = None) -> Enqueued:
    """Enqueue the message of a schedule now, in the caller's transaction; also of one that is disabled. Its next time
    stays as it is.

    Raises ScheduleNotFound, and what enqueue raises.
    """
    database = alias(using)
    handler = call(database, HANDLER, (name,))
    params = (name, *policy(handler[0][0] if handler else name), settings.AUTO_CREATE_CHANNELS)
    return Enqueued(*call(database, SQL, params)[0])


def policy(handler: str) -> tuple[Any, ...]:
    """The retry policy of a handler's messages, as enqueue decides it: max_attempts, backoff."""
    return bind(NewMessage(handler=handler))[9:11]
