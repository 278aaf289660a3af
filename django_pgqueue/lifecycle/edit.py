"""edit: replace the payload of a message that waits."""

from __future__ import annotations

from typing import Any, Literal

from django_pgqueue import codecs
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import id_of
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.sealing import place_of_id
from django_pgqueue.sql.call import ask

Became = Literal["edited", "leased", "busy", "settled", "not_found"]
SQL = "SELECT outcome, refusal FROM pgqueue_edit(%s::bigint, %s::jsonb)"


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
    database = alias(using)
    text = to_json(payload, "payload") or "null"
    if codecs.current() is not None:
        text = codecs.sealed(text, place_of_id(id_of(id), database)) or text
    became: Became = ask(database, SQL, (id_of(id), text))[0][0]
    return became
