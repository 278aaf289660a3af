"""cancel: nobody wants these messages any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from django_pgqueue.lifecycle.arguments import ids_of, text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT id, outcome, refusal FROM pgqueue_cancel(%s::bigint[], %s::text)"


def cancel(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["cancelled", "requested", "settled", "not_found"]]:
    """Cancel messages by their ids. Returns what became of each.

    ``cancelled``: it waited and is in the archive now. ``requested``: it is leased; its worker hears of it with the
    next heartbeat, and it will not be delivered again. ``settled``: the archive or the dead letters had it.
    ``not_found``: nobody knows it. ``reason`` is kept in the archive. Raises MessageNotFound for a single id that
    nobody knows.
    """
    asked = ids_of(ids)
    return dict(ask(alias(using), SQL, (asked, text(reason, "reason")))) if asked else {}
