"""Find messages by a value in their payload, such as payload.customer=42, if an index makes that cheap."""

from __future__ import annotations

import json
import re
from typing import Any

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.sql.call import call

TERM = re.compile(r"payload\.(?P<path>[^=]+?)\s*=\s*(?P<value>.*)", re.DOTALL)
MOST_FOUND_ROWS = 1_000


def payload_terms(term: str) -> list[str] | None:
    """Return the JSON texts, one of which a payload must contain; None if the term is not about payloads.

    A value that reads as JSON may be meant as JSON or as text: 42 finds the number and the text. In quotes it is text.
    """
    found = TERM.fullmatch(term)
    if found is None:
        return None
    wanted = []
    for value in _readings(found["value"]):
        for key in reversed(found["path"].split(".")):
            value = {key.strip(): value}
        try:
            wanted.append(str(to_json(value, "value")))
        except InvalidMessage:
            continue  # no payload can hold that
    return wanted


def _readings(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    return [value] if isinstance(value, str) else [value, text]


def find_by_payload(table: str, wanted: list[str], *, using: str) -> list[int]:
    """Return ids of messages whose payload contains one of these, in no order; at most MOST_FOUND_ROWS + 1."""
    if not wanted:
        return []
    matches = " OR ".join(["t.payload @> %s::jsonb"] * len(wanted))
    sql = f"SELECT t.id FROM pgqueue_{table} AS t WHERE {matches} LIMIT %s"  # noqa: S608
    rows = call(using, sql, (*wanted, MOST_FOUND_ROWS + 1))
    return [pk for (pk,) in rows]
