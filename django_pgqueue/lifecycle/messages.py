"""Change live messages by their ids: cancel, reschedule, edit, release their leases, discard."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from django_pgqueue import codecs
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import aware, checked_text, id_of, ids_of
from django_pgqueue.lifecycle.sealing import place_of_id
from django_pgqueue.sql.call import ask, call

CANCEL = "SELECT id, outcome, refusal FROM pgqueue_cancel(%s::bigint[], %s::text)"


def cancel(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["cancelled", "requested", "settled", "not_found"]]:
    """Cancel messages by their ids. Returns the outcome of each.

    ``ids``: one id or several. ``reason``: text that is kept in the archive. ``using``: database alias; default: the
    queue's.

    Returns an outcome for each id. ``cancelled``: the message was waiting and is in the archive now. ``requested``: it
    is leased; its worker learns of the request with the next heartbeat, and the message is not delivered again.
    ``settled``: it is in the archive or a dead letter already. ``not_found``: no such message exists.

    Raises MessageNotFound if a single id is given and no such message exists.
    """
    asked = ids_of(ids)
    return dict(ask(using, CANCEL, (asked, checked_text(reason, "reason")))) if asked else {}


RESCHEDULE = "SELECT id, outcome, refusal FROM pgqueue_reschedule(%s::bigint[], %s::timestamptz)"


def reschedule(
    ids: int | Iterable[int], *, at: datetime | None = None, using: str | None = None
) -> dict[int, Literal["rescheduled", "ready", "leased", "busy", "settled", "not_found"]]:
    """Change when ready and scheduled messages are due. Returns the outcome of each.

    ``ids``: one id or several. ``at``: an aware datetime; default: at once. The attempts stay. ``using``: database
    alias; default: the queue's.

    Returns an outcome for each id: ``rescheduled``, or ``ready``: it was ready already, and keeps its place.
    ``leased``: a worker has it. ``busy``: another transaction takes or settles it at this moment. ``settled``: it is in
    the archive or a dead letter. ``not_found``: no such message exists. Raises InvalidMessage.
    """
    asked = ids_of(ids)
    return dict(ask(using, RESCHEDULE, (asked, aware(at, "at")))) if asked else {}


Became = Literal["edited", "leased", "busy", "settled", "not_found"]
EDIT = "SELECT outcome, refusal FROM pgqueue_edit(%s::bigint, %s::jsonb)"


def edit(
    id: int,  # noqa: A002  (as everywhere)
    payload: Any,
    *,
    using: str | None = None,
) -> Became:
    """Replace the payload of a ready or scheduled message. Returns the outcome.

    ``id``: the message. ``payload``: JSON. The message keeps its place in the line and its attempts. ``using``:
    database alias; default: the queue's. For a dead letter, use ``redrive([id], payload=…)``.

    Returns ``edited``; or ``leased``: a worker has it; ``busy``: another transaction takes or settles it at this
    moment; ``settled``: it is in the archive or a dead letter; ``not_found``: no such message exists. Raises
    InvalidMessage.
    """
    text = to_json(payload, "payload") or "null"
    if codecs.current() is not None:
        text = codecs.sealed(text, place_of_id(id_of(id), using)) or text
    became: Became = ask(using, EDIT, (id_of(id), text))[0][0]
    return became


LEASE_RELEASE = "SELECT id, outcome FROM pgqueue_lease_release(%s::bigint[], %s::text)"


def lease_release(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["released", "dead_lettered", "cancelled", "waiting", "busy", "settled", "not_found"]]:
    """Take messages away from their workers: they are ready at once. Returns the outcome of each.

    ``ids``: one id or several. ``reason``: text that is kept with the errors of the message. ``using``: database alias;
    default: the queue's.

    The attempt counts; if it was the last, the message becomes a dead letter with reason ``poison``. The holder can no
    longer settle the message, but nothing stops its handler: if the worker is alive, the message may run twice at the
    same time.

    Returns an outcome for each id: ``released``, ``dead_lettered``, or ``cancelled`` if a cancellation was requested.
    ``waiting``: it has no lease. ``busy``: another transaction settles or extends it at this moment. ``settled``: it is
    in the archive or a dead letter already. ``not_found``: no such message exists.
    """
    asked = ids_of(ids)
    return dict(call(using, LEASE_RELEASE, (asked, checked_text(reason, "reason")))) if asked else {}


DISCARD = "SELECT id, outcome FROM pgqueue_discard(%s::bigint[], %s::text)"


def discard(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["discarded", "busy", "settled", "not_found"]]:
    """Move live messages to the dead letters with the reason ``discarded``; a redrive brings them back.

    ``ids``: one id or several. Leased messages are moved too: their holder can no longer settle them. ``reason``: text
    that is kept in the details of the dead letter. ``using``: database alias; default: the queue's.

    Returns an outcome for each id. ``discarded``: it is a dead letter now. ``busy``: another transaction takes or
    settles it at this moment. ``settled``: it is in the archive or a dead letter already. ``not_found``: no such
    message exists.
    """
    asked = ids_of(ids)
    return dict(call(using, DISCARD, (asked, checked_text(reason, "reason")))) if asked else {}
