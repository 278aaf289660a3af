"""complete: settle leased messages as done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.binding import delivery_list, lease_columns, seconds_array
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.sealing import seal
from django_pgqueue.outcomes import Archive
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import json_texts

SQL = (
    "SELECT pgqueue_complete(%s::bigint[], %s::uuid[], string_to_array(%s::text, chr(31), '')::jsonb[], %s::boolean, "
    "%s::boolean, %s::text, string_to_array(%s::text, ',', '')::double precision[])"
)


def complete(
    deliveries: Delivery | Iterable[Delivery],
    *,
    results: Sequence[Any] | None = None,
    skip_lost: bool = False,
    cancelled: bool = False,
    archive: Archive | None = None,
    ran_seconds: Sequence[float | None] | None = None,
    using: str | None = None,
) -> set[int]:
    """Move leased messages to the archive as completed. Returns their ids.

    ``deliveries``: one delivery or several. ``results``: one JSON value a message. ``skip_lost``: leave lost leases out
    instead of raising; a message that this very lease has completed before counts as completed while the archive has
    it, so a call whose connection broke can be repeated. ``cancelled``: archive the messages as cancelled, not as
    completed.

    ``archive``: what the archive keeps of them, whatever their channel or queue says: ``full``, ``outcome`` (no
    payload, no result) or ``none``. ``ran_seconds``: how long the handler of each message ran, from which the archive
    has ``started_at``; default: unknown. ``using``: database alias; default: the queue's. In ``atomic()`` together with
    the handler's own writes, the effects happen exactly once.

    Raises LeaseLost, and then changes nothing; InvalidMessage if there is not one result, or one number of seconds, for
    each message.
    """
    settled = delivery_list(deliveries)
    if not settled:
        return set()
    if results is not None and len(results) != len(settled):
        raise InvalidMessage("complete takes one result for each message")
    ids, tokens = lease_columns(settled)
    database = alias(using)
    results_json = None
    if results is not None:
        results_json = json_texts(seal(settled, [to_json(result, "result") for result in results], database))
    ran = seconds_array(ran_seconds, len(settled))
    return {row[0] for row in call(database, SQL, (ids, tokens, results_json, skip_lost, cancelled, archive, ran))}
