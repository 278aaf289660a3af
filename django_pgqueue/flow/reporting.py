"""Report how far a handler is, and read it: in a process, in the admin, in a browser."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.core import signing

from django_pgqueue.delivery import Delivery, Enqueued
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.lifecycle.enqueue import require_flow
from django_pgqueue.sql.call import alias, call

PAUSE_SECONDS = 1.0
SALT = "django_pgqueue.flow.progress"
WRITE = "SELECT pgqueue_progress(%s::bigint, %s::uuid, %s::float8, %s::float8, %s::text)"
READ = "SELECT id, place, done, total, note, updated_at FROM pgqueue_progress_of(ARRAY[%s::bigint])"
# When each lease may write again, by the monotonic clock.
_next: dict[tuple[str, object], float] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Progress:
    """Hold how far a message is.

    ``place``: ``ready``, ``leased``, ``scheduled``, ``settled`` (in the archive or a dead letter) or ``not_found``.
    ``done`` of ``total``: what the handler has reported, or None. ``updated_at``: by the clock of the database.
    """

    id: int
    place: Literal["ready", "leased", "scheduled", "settled", "not_found"]
    done: float | None
    total: float | None
    note: str
    updated_at: datetime | None

    @property
    def part(self) -> float | None:
        """Return how much is done, from 0 to 1; None if it is unknown."""
        if self.done is None or not self.total or self.total < 0:
            return None
        return min(max(self.done / self.total, 0.0), 1.0)


def progress(
    delivery: Delivery[Any], done: float, *, of: float | None = None, note: str = "", using: str | None = None
) -> bool:
    """Report that ``done`` of ``of`` is done. Returns whether it was written.

    ``of``: the whole, in the same unit; None: unknown. ``note``: a few words, at most 500 characters, stored without
    a codec. ``using``: database alias; default: the queue's.

    A lease writes at most once a second, and at once when all is done; other calls do nothing. In an atomic handler
    others see it only after the commit. Raises LeaseLost, if it writes and the lease is lost.
    """
    require_flow("progress")
    database, now = alias(using), time.monotonic()
    key = (database, delivery.token)
    with _lock:
        if _next.get(key, now) > now and (of is None or done < of):
            return False
        if len(_next) > 1000:
            for old in [old for old, at in _next.items() if at <= now]:
                del _next[old]
        _next[key] = now + PAUSE_SECONDS
    [[kept]] = call(database, WRITE, [delivery.id, delivery.token, done, of, note])
    if not kept:
        raise LeaseLost(f"the lease is lost of message {delivery.id}", ids=(delivery.id,))
    return True


aprogress = sync_to_async(progress)
"""``progress`` for async handlers."""


def progress_of(message: int | Enqueued, *, using: str | None = None) -> Progress:
    """Return how far a message is. ``message``: its id, or the answer of its enqueue."""
    require_flow("progress_of")
    number = message if isinstance(message, int) else message.id
    [(id, place, done, total, note, updated_at)] = call(alias(using), READ, [number])  # noqa: A001  (as everywhere)
    return Progress(id, place, done, total, note or "", updated_at)


def progress_token(message: int | Enqueued) -> str:
    """Return a text for a browser that names a message, and that nobody can make for another one."""
    return signing.dumps(message if isinstance(message, int) else message.id, salt=SALT)


def id_of_token(token: str, *, max_age: timedelta | int = timedelta(days=1)) -> int:
    """Return the id of the message that a token of :func:`progress_token` names.

    ``max_age``: how old it may be, a timedelta or seconds. Raises ``django.core.signing.BadSignature``, also for one
    that is too old.
    """
    return int(signing.loads(token, salt=SALT, max_age=max_age))
