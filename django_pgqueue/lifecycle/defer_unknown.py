"""defer_unknown: give back messages whose handler their worker does not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.binding import leases, listed
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id, outcome FROM pgqueue_defer_unknown(%s::bigint[], %s::uuid[], %s::jsonb[], %s::interval, %s::boolean)"


def defer_unknown(
    deliveries: Delivery | Iterable[Leased],
    *,
    errors: Sequence[Mapping[str, Any]],
    skip_lost: bool = False,
    using: str | None = None,
) -> dict[int, Literal["deferred", "dead_lettered", "cancelled", "completed", "retried"]]:
    """Deliver again soon, so that a worker that knows the handler gets the message; the attempt does not count.

    The setting UNKNOWN_HANDLER_GRACE says how long after the first time a message is dead-lettered as ``rejected``.
    ``errors``: what went wrong, one dict a message with a ``type``; the first one is kept with the message. Returns
    what became of each message. Raises LeaseLost; with ``skip_lost``, lost ones are left out, as in
    :func:`django_pgqueue.defer`.
    """
    returned = listed(deliveries)
    if not returned:
        return {}
    texts = [to_json(error, "error") for error in errors]
    grace = settings.UNKNOWN_HANDLER_GRACE
    return dict(call(alias(using), SQL, (*leases(returned), texts, grace, skip_lost)))
