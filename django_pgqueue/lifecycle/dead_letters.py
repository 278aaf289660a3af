"""Redrive dead letters, or delete them for good."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from django_pgqueue import codecs
from django_pgqueue.conf import settings
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import aware, ids_of, optional_text
from django_pgqueue.lifecycle.sealing import seal_letters
from django_pgqueue.outcomes import KEEP
from django_pgqueue.sql.call import ask, call
from django_pgqueue.sql.values import json_texts, plain_texts

REDRIVE = """
SELECT old_id, new_id, refusal FROM pgqueue_redrive(
    %s::bigint[], %s::text, %s::jsonb, string_to_array(%s::text, chr(31), '')::jsonb[],
    string_to_array(%s::text, ',', '')::timestamptz[], %s::interval)
"""


def redrive(
    ids: int | Iterable[int],
    *,
    channel: str | None = None,
    payload: Any = KEEP,
    payloads: Iterable[Any] | None = None,
    times: Iterable[datetime | None] | None = None,
    using: str | None = None,
) -> dict[int, int]:
    """Enqueue dead letters again as new messages, all or none. Returns the new id of each.

    Each has all its attempts again. An id that is no dead letter, or was redriven before, is left out. ``ids``: one id
    or several. ``channel``: another channel of the same queue. ``payload``: JSON instead of the old one, for all.
    ``payloads``: JSON for each id, KEEP for those that stay. ``times``: when each is due (an aware datetime); None: at
    once. ``using``: database alias; default: the queue's.

    With a PAYLOAD_CODEC, payloads stay as they are stored; those that are given, and those that go to another channel,
    are encoded for their channel.

    Raises ChannelNotFound, ChannelFull, ChannelReleased, InvalidMessage.
    """
    asked, one = ids_of(ids), _text(payload)
    texts = None if payloads is None else [_text(each) for each in payloads]
    due = None if times is None else [aware(at, "times") for at in times]
    if codecs.current() is not None and (one, texts, optional_text(channel, "channel")) != (None, None, None):
        one, texts = None, seal_letters(asked, channel, texts or [one] * len(asked), using)
    written = None if texts is None else json_texts(texts)
    moments = None if due is None else plain_texts(due, datetime.isoformat)
    given = (asked, optional_text(channel, "channel"), one, written, moments, settings.ENQUEUE_WAIT)
    return dict(ask(using, REDRIVE, given))


def _text(payload: Any) -> str | None:
    return None if payload is KEEP else (to_json(payload, "payload") or "null")


DELETE_DEAD = "SELECT id, outcome FROM pgqueue_delete_dead(%s::bigint[], %s::boolean)"


def delete_dead(
    ids: int | Iterable[int], *, using: str | None = None
) -> dict[int, Literal["deleted", "redriven", "unexported", "busy", "not_found"]]:
    """Delete dead letters for good: no redrive brings them back. Returns the outcome of each.

    ``ids``: one id or several. ``using``: database alias; default: the queue's.

    Returns an outcome for each id. ``deleted``: it no longer exists. ``redriven``: it was redriven as a new message,
    and stays. ``unexported``: a lake lacks it, and KEEP_UNTIL_EXPORTED is set. ``busy``: another transaction redrives,
    deletes or prunes it at this moment. ``not_found``: no such dead letter exists.
    """
    asked = ids_of(ids)
    return dict(call(using, DELETE_DEAD, (asked, settings.KEEP_UNTIL_EXPORTED))) if asked else {}
