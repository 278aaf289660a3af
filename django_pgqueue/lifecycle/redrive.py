"""redrive: enqueue dead letters again as new messages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django_pgqueue import codecs
from django_pgqueue.conf import settings
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import aware, ids_of, optional_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.sealing import seal_letters
from django_pgqueue.outcomes import KEEP
from django_pgqueue.sql.call import ask
from django_pgqueue.sql.values import json_texts, plain_texts

SQL = """
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
    database, asked, one = alias(using), ids_of(ids), _text(payload)
    texts = None if payloads is None else [_text(each) for each in payloads]
    due = None if times is None else [aware(at, "times") for at in times]
    if codecs.current() is not None and (one, texts, optional_text(channel, "channel")) != (None, None, None):
        one, texts = None, seal_letters(asked, channel, texts or [one] * len(asked), database)
    written = None if texts is None else json_texts(texts)
    moments = None if due is None else plain_texts(due, datetime.isoformat)
    given = (asked, optional_text(channel, "channel"), one, written, moments, settings.ENQUEUE_WAIT)
    return dict(ask(database, SQL, given))


def _text(payload: Any) -> str | None:
    return None if payload is KEEP else (to_json(payload, "payload") or "null")
