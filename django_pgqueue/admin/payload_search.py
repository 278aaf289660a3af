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
USABLE = """
SELECT i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(%s) AND c.relname = %s
"""


def index_of(table: str) -> tuple[str, str]:
    """Return the name of the index that the search of this table needs, and the statement that creates it.

    A partitioned table takes no CONCURRENTLY; docs/how-to/production.md has the statements that lock it only shortly.
    """
    name = f"pgqueue_{table}_payload"
    how = "" if table == "archived_message" else " CONCURRENTLY"
    return name, f"CREATE INDEX{how} {name} ON pgqueue_{table} USING gin (payload jsonb_path_ops)"


def is_indexed(table: str, *, using: str) -> bool:
    """Return whether the payloads of this table can be searched, because its index exists and is valid."""
    return call(using, USABLE, (f"pgqueue_{table}", f"pgqueue_{table}_payload")) == [(True,)]


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
