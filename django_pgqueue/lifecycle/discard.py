"""discard: move live messages to the dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from django_pgqueue.lifecycle.arguments import checked_text, ids_of
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id, outcome FROM pgqueue_discard(%s::bigint[], %s::text)"


def discard(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["discarded", "busy", "settled", "not_found"]]:
    """Move live messages to the dead letters with the reason ``discarded``; a redrive brings them back.

    ``ids``: one id or several. Leased messages are moved too: their holder can no longer settle them. ``reason``: text
    that is kept in the details of the dead letter. ``using``: database alias; default: the queue's.

    Returns an outcome for each id. ``discarded``: it is a dead letter now. ``busy``: another transaction takes or
    settles it at this moment. ``settled``: it is in the archive or a dead letter already. ``not_found``: no such
    message exists.
    """
    asked = ids_of(ids)
    return dict(call(alias(using), SQL, (asked, checked_text(reason, "reason")))) if asked else {}
