"""dead_letter: settle leased messages as refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import text
from django_pgqueue.lifecycle.binding import Unreadable, leases, listed
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT pgqueue_dead_letter(%s::bigint[], %s::uuid[], %s::text[], %s::jsonb[], %s::boolean)"
UNREADABLE = "unreadable"


def dead_letter(
    deliveries: Delivery | Iterable[Delivery],
    *,
    reason: str,
    details: Any = None,
    skip_lost: bool = False,
    using: str | None = None,
) -> set[int]:
    """Move the messages to the dead letters. ``reason``: a short word to group by; ``details``: JSON. Returns the ids.

    Raises LeaseLost (nothing is changed). With ``skip_lost``, lost ones are left out, but not what this very lease has
    settled before.
    """
    settled = listed(deliveries)
    if not settled:
        return set()
    if not 1 <= len(text(reason, "reason")) <= 200:
        raise InvalidMessage("a dead letter needs a reason of 1 to 200 characters")
    ids, tokens = leases(settled)
    rows = call(
        alias(using),
        SQL,
        (ids, tokens, [reason] * len(settled), [to_json(details, "details")] * len(settled), skip_lost),
    )
    return {row[0] for row in rows}


def refuse(unreadable: list[Unreadable], using: str) -> None:
    """What cannot be read now cannot be read later: no attempt is spent on it."""
    ids, tokens = leases(unreadable)
    details = [to_json({"type": "Unreadable", "message": item.problem}, "details") for item in unreadable]
    call(using, SQL, (ids, tokens, [UNREADABLE] * len(unreadable), details, True))
