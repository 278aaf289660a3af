"""delete_dead: delete dead letters for good."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.arguments import ids_of
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id, outcome FROM pgqueue_delete_dead(%s::bigint[], %s::boolean)"


def delete_dead(
    ids: int | Iterable[int], *, using: str | None = None
) -> dict[int, Literal["deleted", "redriven", "unexported", "busy", "not_found"]]:
    """Delete dead letters for good: no redrive brings them back. Returns the outcome of each.

    ``ids``: one id or several. ``using``: database alias; default: the queue's.

    Returns an outcome for each id. ``deleted``: it no longer exists. ``redriven``: it was redriven as a new message,
    and stays. ``unexported``: a lake lacks it, and KEEP_UNTIL_EXPORTED is set. ``busy``: another transaction redrives,
    deletes or prunes it at this moment. ``not_found``: no such dead letter exists.
    """
    asked = ids_of(ids)
    return dict(call(alias(using), SQL, (asked, settings.KEEP_UNTIL_EXPORTED))) if asked else {}
