"""retry: put failed messages back under their retry policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.binding import duration, leases, listed, to_json
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = (
    "SELECT id, outcome FROM pgqueue_retry(%s::bigint[], %s::uuid[], %s::jsonb[], %s::interval[], "
    "%s::text, %s::boolean)"
)


def retry(
    deliveries: Delivery | Iterable[Leased],
    *,
    errors: Sequence[Mapping[str, Any]],
    delays: Sequence[timedelta | None] | None = None,
    reason: str = "failed",
    skip_lost: bool = False,
    using: str | None = None,
) -> dict[int, Literal["retried", "dead_lettered", "cancelled", "completed"]]:
    """Deliver again after ``delays``, or the message's back-off; dead letter with ``reason`` when its attempts are
    used up. Returns what became of each message; ``cancelled`` if somebody wants that.

    ``errors``: what went wrong, one dict a message; kept with the message. Raises LeaseLost. With ``skip_lost``, lost
    ones are left out, but what this very lease has settled before is returned with what became of it.
    """
    failed = listed(deliveries)
    if not failed:
        return {}
    if isinstance(errors, Mapping) or len(errors) != len(failed) or (delays is not None and len(delays) != len(failed)):
        raise InvalidMessage("retry takes one error, and one delay if any, for each message")
    ids, tokens = leases(failed)
    pauses = None if delays is None else [duration(delay, "delay") for delay in delays]
    texts = [to_json(error, "error") for error in errors]
    return dict(call(alias(using), SQL, (ids, tokens, texts, pauses, reason, skip_lost)))
