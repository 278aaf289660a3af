"""explain: why is it not running? Of a message or a channel; and what became of a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django_pgqueue.conf import settings
from django_pgqueue.jsonb import from_json
from django_pgqueue.lifecycle.arguments import id_of, text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask, call

MESSAGE = "SELECT code, sentence, facts FROM pgqueue_explain_message(%s::bigint, %s::interval)"
CHANNEL = "SELECT code, sentence, facts, refusal FROM pgqueue_explain_channel(%s::text, %s::text, %s::interval)"


@dataclass(frozen=True, slots=True)
class Reason:
    """``code``: a word to go by. ``sentence``: for people, in English. ``facts``: what it says, as JSON values; times
    are texts in ISO 8601."""

    code: str
    sentence: str
    facts: dict[str, Any]


def explain_message(id: int, *, using: str | None = None) -> list[Reason]:  # noqa: A002  (as everywhere else)
    """Why the message is not running, or what became of it, the most decisive reason first.

    One that nobody knows has the code ``unknown``. A worker that was silent for longer than the setting LEASE is taken
    for dead.
    """
    return _reasons(call(alias(using), MESSAGE, (id_of(id), settings.LEASE)))


def explain_channel(*, channel: str, queue: str = "default", using: str | None = None) -> list[Reason]:
    """Why the messages of the channel are not running: what holds them up, then its place in the line. Raises
    ChannelNotFound."""
    return _reasons(ask(alias(using), CHANNEL, (text(queue, "queue"), text(channel, "channel"), settings.LEASE)))


def _reasons(rows: list[tuple[Any, ...]]) -> list[Reason]:
    return [Reason(code, sentence, from_json(facts)) for code, sentence, facts in rows]
