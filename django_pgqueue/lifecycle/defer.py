"""defer: give leased messages back on purpose, to be delivered again later."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Literal

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.binding import aware, duration, leases, listed, to_json
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.outcomes import KEEP
from django_pgqueue.sql.call import call

SQL = (
    "SELECT id, outcome FROM pgqueue_defer(%s::bigint[], %s::uuid[], %s::timestamptz[], %s::interval[], %s::jsonb[], "
    "%s::boolean, %s::boolean)"
)


def defer(
    deliveries: Delivery | Iterable[Delivery],
    *,
    until: datetime | None = None,
    delay: timedelta | None = None,
    state: Any = KEEP,
    skip_lost: bool = False,
    using: str | None = None,
) -> dict[int, Literal["deferred", "cancelled", "completed", "dead_lettered", "retried"]]:
    """Deliver again at ``until`` (aware), after ``delay``, or at once, behind those that wait; ``state`` (JSON) is
    saved for the next delivery. Returns what became of each message: ``deferred``, or ``cancelled`` if somebody wants
    that.

    A deferral is progress: it does not use up an attempt. Raises LeaseLost. With ``skip_lost``, lost ones are left out,
    but what this very lease has settled before is returned with what became of it. Raises InvalidMessage.
    """
    settled = listed(deliveries)
    if not settled:
        return {}
    if until is not None and delay is not None:
        raise InvalidMessage("defer takes until or delay, not both")
    ids, tokens = leases(settled)
    keep = state is KEEP
    rows = call(
        alias(using),
        SQL,
        (
            ids,
            tokens,
            None if until is None else [aware(until, "until")] * len(settled),
            [duration(delay or timedelta(0), "delay")] * len(settled) if until is None else None,
            None if keep else [to_json(state, "state")] * len(settled),
            keep,
            skip_lost,
        ),
    )
    return dict(rows)
