"""lease_release: take messages away from a worker that hangs or is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from django_pgqueue.lifecycle.arguments import ids_of, text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id, outcome FROM pgqueue_lease_release(%s::bigint[], %s::text)"


def lease_release(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["released", "dead_lettered", "cancelled", "waiting", "busy", "settled", "not_found"]]:
    """Take the leases away: the messages are ready at once. Returns what became of each.

    The attempt counts; where it was the last, the message becomes a dead letter with reason ``poison``. The holder's
    token is worth nothing any more, but nobody stops its handler: if it lives, the message may run twice at the same
    time. ``waiting``: it has no lease. ``busy``: somebody settles or extends it at this moment. ``reason`` is kept with
    the errors of the message.
    """
    asked = ids_of(ids)
    return dict(call(alias(using), SQL, (asked, text(reason, "reason")))) if asked else {}
