"""discard: get messages out of the way, to the dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from django_pgqueue.lifecycle.arguments import ids_of, text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id, outcome FROM pgqueue_discard(%s::bigint[], %s::text)"


def discard(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["discarded", "busy", "settled", "not_found"]]:
    """Make live messages dead letters with the reason ``discarded``: redrive brings them back. Returns what became of
    each.

    Leased ones, too: whatever their holder says later is refused. ``busy``: somebody takes or settles it at this
    moment. ``reason`` is kept in the details of the dead letter.
    """
    asked = ids_of(ids)
    return dict(call(alias(using), SQL, (asked, text(reason, "reason")))) if asked else {}
