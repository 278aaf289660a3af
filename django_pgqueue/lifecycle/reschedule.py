"""reschedule: another time for messages that wait."""

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
    """Let ready and scheduled messages be due ``at`` (aware); at once without it. Returns what became of each.

    ``ready``: it was already, and keeps its place. ``leased``: its worker has it. ``busy``: somebody takes or settles
    it at this moment. ``settled``: the archive or the dead letters have it. Attempts stay. Raises InvalidMessage.
    """
    asked = ids_of(ids)
    return dict(ask(alias(using), SQL, (asked, aware(at, "at")))) if asked else {}
