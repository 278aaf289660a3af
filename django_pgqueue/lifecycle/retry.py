"""retry: put failed messages back under their retry policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import checked_duration, checked_text
from django_pgqueue.lifecycle.binding import delivery_list, lease_columns, seconds_array
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.sealing import seal, seal_errors
from django_pgqueue.outcomes import KEEP
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import duration_text, json_texts, plain_texts

SQL = (
    "SELECT id, outcome FROM pgqueue_retry(%s::bigint[], %s::uuid[], %s::jsonb[], "
    "string_to_array(%s::text, ',', '')::interval[], %s::text, %s::boolean, "
    "p_states => string_to_array(%s::text, chr(31), '')::jsonb[], "
    "p_ran_seconds => string_to_array(%s::text, ',', '')::double precision[])"
)


def retry(
    deliveries: Delivery | Iterable[Leased],
    *,
    errors: Sequence[Mapping[str, Any]],
    delays: Sequence[timedelta | None] | None = None,
    states: Sequence[Any] | None = None,
    reason: str = "failed",
    skip_lost: bool = False,
    ran_seconds: Sequence[float | None] | None = None,
    using: str | None = None,
) -> dict[int, Literal["retried", "dead_lettered", "cancelled", "completed"]]:
    """Put failed messages back under their retry policy, or into the dead letters when their attempts are used up.

    ``deliveries``: one delivery or several. ``errors``: what went wrong, one dict a message; it is kept with the
    message. ``delays``: one timedelta a message until its next delivery; None: the message's back-off. ``states``: what
    to save for the next delivery, one JSON value a message, KEEP for those that keep theirs; default: all keep theirs.
    ``reason``: the reason of the dead letter. ``skip_lost``: leave lost leases out instead of raising; a message that
    this very lease has settled before is returned with its outcome of that time. ``ran_seconds``: how long the handler
    of each message ran, from which its error has ``started_at``; default: unknown. ``using``: database alias; default:
    the queue's.

    Returns the outcome of each id: ``retried``, ``dead_lettered``, or ``cancelled`` if a cancellation was requested.
    Raises LeaseLost, and InvalidMessage for arguments that do not pair up.
    """
    failed = delivery_list(deliveries)
    if not failed:
        return {}
    columns = [column for column in (errors, delays, states) if column is not None]
    if isinstance(errors, Mapping) or any(len(column) != len(failed) for column in columns):
        raise InvalidMessage("retry takes one error for each message, and one delay and one state, if any")
    if not all(isinstance(error, Mapping) for error in errors):
        raise InvalidMessage("an error of retry is not a mapping", hint='Give {"type": …, "message": …}.')
    if not 1 <= len(checked_text(reason, "reason")) <= 200:
        raise InvalidMessage("the reason of a dead letter takes 1 to 200 characters")
    ids, tokens = lease_columns(failed)
    pauses = None if delays is None else plain_texts([checked_duration(d, "delay") for d in delays], duration_text)
    database = alias(using)
    texts = [to_json(error, "error") for error in seal_errors(failed, errors, database)]
    saved = None if states is None else json_texts(seal(failed, [state_as_json(each) for each in states], database))
    ran = seconds_array(ran_seconds, len(failed))
    given = (ids, tokens, texts, pauses, checked_text(reason, "reason"), skip_lost, saved, ran)
    return dict(call(database, SQL, given))


def state_as_json(state: Any) -> str | None:
    """Return the state as JSON text, or None for KEEP: NULL means that the message keeps its state."""
    return None if state is KEEP else to_json(state, "state") or "null"
