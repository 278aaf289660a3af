"""dead_letter: move leased messages to the dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.binding import Unreadable, delivery_list, lease_columns, seconds_array
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.defer import defer
from django_pgqueue.lifecycle.sealing import seal
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import json_texts

SQL = (
    "SELECT pgqueue_dead_letter(%s::bigint[], %s::uuid[], %s::text[], string_to_array(%s::text, chr(31), '')::jsonb[], "
    "%s::boolean, string_to_array(%s::text, ',', '')::double precision[])"
)
CODEC_PAUSE = timedelta(seconds=15)


def dead_letter(
    deliveries: Delivery | Iterable[Delivery],
    *,
    reason: str,
    details: Any = None,
    skip_lost: bool = False,
    ran_seconds: Sequence[float | None] | None = None,
    using: str | None = None,
) -> set[int]:
    """Move leased messages to the dead letters. Returns their ids.

    ``deliveries``: one delivery or several. ``reason``: a short word to group by, up to 200 characters. ``details``:
    JSON that is kept with each dead letter. ``skip_lost``: leave lost leases out instead of raising; a message that
    this very lease has settled before is returned. ``ran_seconds``: how long the handler of each message ran, from
    which the dead letter has ``started_at``; default: unknown. ``using``: database alias; default: the queue's.

    Raises LeaseLost, and then changes nothing; InvalidMessage for a reason that is empty or too long, or if there is
    not one number of seconds for each message.
    """
    settled = delivery_list(deliveries)
    if not settled:
        return set()
    if not 1 <= len(checked_text(reason, "reason")) <= 200:
        raise InvalidMessage("a dead letter needs a reason of 1 to 200 characters")
    ids, tokens = lease_columns(settled)
    database = alias(using)
    kept = json_texts(seal(settled, [to_json(details, "details")] * len(settled), database))
    ran = seconds_array(ran_seconds, len(settled))
    return {row[0] for row in call(database, SQL, (ids, tokens, [reason] * len(settled), kept, skip_lost, ran))}


def settle_unreadable(unreadable: list[Unreadable], using: str) -> None:
    """Move messages that Python cannot read to the dead letters, because a later attempt could not read them either.

    Messages that the codec cannot decode now are deferred for CODEC_PAUSE, and use up no attempt.
    """
    if waiting := [item for item in unreadable if item.reason is None]:
        defer(waiting, delay=CODEC_PAUSE, skip_lost=True, using=using)
    dead = [item for item in unreadable if item.reason is not None]
    if dead:
        ids, tokens = lease_columns(dead)
        details = json_texts([to_json({"type": item.kind, "message": item.problem}, "details") for item in dead])
        call(using, SQL, (ids, tokens, [item.reason for item in dead], details, True, None))
