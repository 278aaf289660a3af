"""defer_unknown: give back messages whose handler is not registered in this worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.binding import delivery_list, lease_columns
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
    """Give back messages whose handler is not registered here, so that a worker that has it gets them soon.

    The attempt does not count. When the setting UNKNOWN_HANDLER_GRACE has passed since the first time, a message
    becomes a dead letter with the reason ``unknown_handler``.

    ``deliveries``: one delivery or several. ``errors``: what went wrong, one dict a message with a ``type``; the first
    one is kept with the message. ``skip_lost``: leave lost leases out instead of raising, as in
    :func:`django_pgqueue.defer`. ``using``: database alias; default: the queue's.

    Returns the outcome of each id. Raises LeaseLost.
    """
    returned = delivery_list(deliveries)
    if not returned:
        return {}
    texts = [to_json(error, "error") for error in errors]
    grace = settings.UNKNOWN_HANDLER_GRACE
    return dict(call(alias(using), SQL, (*lease_columns(returned), texts, grace, skip_lost)))
