"""edit: another payload for a message that waits."""

from __future__ import annotations

from typing import Any, Literal

from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import id_of
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

Became = Literal["edited", "leased", "busy", "settled", "not_found"]
SQL = "SELECT outcome, refusal FROM pgqueue_edit(%s::bigint, %s::jsonb)"


def edit(
    id: int,  # noqa: A002  (as everywhere)
    payload: Any,
    *,
    using: str | None = None,
) -> Became:
    """Replace the payload (JSON) of a ready or scheduled message; its place in the line and its attempts stay. Returns
    what became of it. Of a dead letter: ``redrive([id], payload=…)``. Raises InvalidMessage.
    """
    became: Became = ask(alias(using), SQL, (id_of(id), to_json(payload, "payload") or "null"))[0][0]
    return became
