"""explain: return why a message or a channel is not running, or how a message ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django_pgqueue.conf import settings
from django_pgqueue.jsonb import from_json
from django_pgqueue.lifecycle.arguments import checked_text, id_of
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask, call

MESSAGE = "SELECT code, sentence, facts FROM pgqueue_explain_message(%s::bigint, %s::interval)"
CHANNEL = "SELECT code, sentence, facts, refusal FROM pgqueue_explain_channel(%s::text, %s::text, %s::interval)"


@dataclass(frozen=True, slots=True)
class Reason:
    """Give one reason. ``code``: a fixed word for programs. ``sentence``: the reason in English. ``facts``: the values
    in the sentence, as JSON; times are texts in ISO 8601."""

    code: str
    sentence: str
    facts: dict[str, Any]


def explain_message(id: int, *, using: str | None = None) -> list[Reason]:  # noqa: A002  (as everywhere else)
    """Return why a message is not running, or how it ended, the most decisive reason first.

    ``id``: the message. ``using``: database alias; default: the queue's. A message that does not exist has the code
    ``unknown``. A worker that was silent for longer than the setting LEASE counts as dead.
    """
    return _reasons(call(alias(using), MESSAGE, (id_of(id), settings.LEASE)))


def explain_channel(*, channel: str, queue: str = "default", using: str | None = None) -> list[Reason]:
    """Return why the messages of a channel are not running: what blocks them, then the channel's place in the line.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``using``: database alias; default:
    the queue's.

    Raises ChannelNotFound.
    """
    return _reasons(
        ask(alias(using), CHANNEL, (checked_text(queue, "queue"), checked_text(channel, "channel"), settings.LEASE))
    )


def _reasons(rows: list[tuple[Any, ...]]) -> list[Reason]:
    return [Reason(code, sentence, from_json(facts)) for code, sentence, facts in rows]
