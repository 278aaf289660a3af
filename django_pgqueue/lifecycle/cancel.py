"""cancel: nobody wants these messages any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id, outcome FROM pgqueue_cancel(%s::bigint[], %s::text)"


def cancel(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["cancelled", "requested", "settled", "not_found"]]:
    """Cancel messages by their ids. Returns what became of each.

    ``cancelled``: it waited and is in the archive now. ``requested``: it is leased; its worker hears of it with the
    next heartbeat, and it will not be delivered again. ``settled``: the archive or the dead letters had it.
    ``not_found``: nobody knows it. ``reason`` is kept in the archive. Raises MessageNotFound for a single id that
    nobody knows.
    """
    asked = [ids] if isinstance(ids, int) else list(ids)
    return dict(call(alias(using), SQL, (asked, reason))) if asked else {}
