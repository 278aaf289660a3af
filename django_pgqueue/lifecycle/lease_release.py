"""lease_release: take messages away from a worker that hangs or has died."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from django_pgqueue.lifecycle.arguments import checked_text, ids_of
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id, outcome FROM pgqueue_lease_release(%s::bigint[], %s::text)"


def lease_release(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["released", "dead_lettered", "cancelled", "waiting", "busy", "settled", "not_found"]]:
    """Take messages away from their workers: they are ready at once. Returns the outcome of each.

    ``ids``: one id or several. ``reason``: text that is kept with the errors of the message. ``using``: database alias;
    default: the queue's.

    The attempt counts; if it was the last, the message becomes a dead letter with reason ``poison``. The holder can no
    longer settle the message, but nothing stops its handler: if the worker is alive, the message may run twice at the
    same time.

    Returns an outcome for each id: ``released``, ``dead_lettered``, or ``cancelled`` if a cancellation was requested.
    ``waiting``: it has no lease. ``busy``: another transaction settles or extends it at this moment. ``settled``: it is
    in the archive or a dead letter already. ``not_found``: no such message exists.
    """
    asked = ids_of(ids)
    return dict(call(alias(using), SQL, (asked, checked_text(reason, "reason")))) if asked else {}
