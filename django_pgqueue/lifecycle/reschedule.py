"""reschedule: give messages that wait another time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from django_pgqueue.lifecycle.arguments import aware, ids_of
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT id, outcome, refusal FROM pgqueue_reschedule(%s::bigint[], %s::timestamptz)"


def reschedule(
    ids: int | Iterable[int], *, at: datetime | None = None, using: str | None = None
) -> dict[int, Literal["rescheduled", "ready", "leased", "busy", "settled", "not_found"]]:
    """Change when ready and scheduled messages are due. Returns the outcome of each.

    ``ids``: one id or several. ``at``: an aware datetime; default: at once. The attempts stay. ``using``: database
    alias; default: the queue's.

    Returns an outcome for each id: ``rescheduled``, or ``ready``: it was ready already, and keeps its place.
    ``leased``: a worker has it. ``busy``: another transaction takes or settles it at this moment. ``settled``: it is in
    the archive or a dead letter. ``not_found``: no such message exists. Raises InvalidMessage.
    """
    asked = ids_of(ids)
    return dict(ask(alias(using), SQL, (asked, aware(at, "at")))) if asked else {}
