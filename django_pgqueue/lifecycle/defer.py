"""defer: give leased messages back on purpose, to be delivered again later."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Literal

from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import aware, checked_duration
from django_pgqueue.lifecycle.binding import delivery_list, lease_columns
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.sealing import seal
from django_pgqueue.outcomes import KEEP
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import json_texts

SQL = (
    "SELECT id, outcome FROM pgqueue_defer(%s::bigint[], %s::uuid[], %s::timestamptz[], %s::interval[], "
    "string_to_array(%s::text, chr(31), '')::jsonb[], %s::boolean, %s::boolean, %s::boolean)"
)


def defer(
    deliveries: Delivery | Iterable[Leased],
    *,
    until: datetime | None = None,
    delay: timedelta | None = None,
    state: Any = KEEP,
    count_attempt: bool = False,
    skip_lost: bool = False,
    using: str | None = None,
) -> dict[int, Literal["deferred", "cancelled", "completed", "dead_lettered", "retried"]]:
    """Give leased messages back on purpose, to be delivered again later.

    ``deliveries``: one delivery or several. ``until``: an aware datetime, or ``delay``: a timedelta; without either,
    the message is ready at once, behind those that wait. ``state``: JSON that is saved for the next delivery; default:
    the saved state stays. ``count_attempt``: by default a deferral is progress and does not use up an attempt; with
    True it does, so ``delivery.attempt`` grows, and a message whose attempts are used up becomes a dead letter with
    reason ``deferred``. ``skip_lost``: leave lost leases out instead of raising; a message that this very lease has
    settled before is returned with its outcome of that time. ``using``: database alias; default: the queue's.

    Returns the outcome of each id: ``deferred``, ``dead_lettered``, or ``cancelled`` if a cancellation was requested.
    Raises LeaseLost and InvalidMessage.
    """
    settled = delivery_list(deliveries)
    if not settled:
        return {}
    if until is not None and delay is not None:
        raise InvalidMessage("defer takes until or delay, not both")
    ids, tokens = lease_columns(settled)
    keep = state is KEEP
    database = alias(using)
    states = None if keep else json_texts(seal(settled, [to_json(state, "state")] * len(settled), database))
    rows = call(
        database,
        SQL,
        (
            ids,
            tokens,
            None if until is None else [aware(until, "until")] * len(settled),
            [checked_duration(delay or timedelta(0), "delay")] * len(settled) if until is None else None,
            states,
            keep,
            skip_lost,
            count_attempt,
        ),
    )
    return dict(rows)
