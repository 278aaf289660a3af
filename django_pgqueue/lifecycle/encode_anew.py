"""encode_anew: encode what is stored of messages, dead letters and schedules once more, after a key has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from django_pgqueue import codecs
from django_pgqueue.codecs import Place
from django_pgqueue.exceptions import PayloadUndecodable
from django_pgqueue.jsonb import from_json
from django_pgqueue.sql.call import call

BODY_IS_SEALED = "coalesce(substring(t.body FROM 1 FOR 15) = decode('00706771756575653a636f64656300', 'hex'), false)"
LEASED = "SELECT count(*) FROM pgqueue_message AS m WHERE m.status = 2"


@dataclass(frozen=True, slots=True)
class Stored:
    """Describe a table with encoded columns. ``source``: the table as t, joined with its channel as c."""

    source: str
    queue: str
    channel: str
    columns: tuple[str, ...]
    errors: bool = True
    body: bool = True
    where: str = "true"

    def read_sql(self) -> str:
        """Return the query for the next rows; it locks them."""
        sealed = [f"t.{column} ? '$codec'" for column in self.columns]
        sealed += ["""t.errors::text LIKE '%%"$codec"%%'"""] * self.errors + [BODY_IS_SEALED] * self.body
        shown = [f"t.{column}::text" for column in self.columns]
        shown += ["t.errors::text" if self.errors else "NULL", "t.body" if self.body else "NULL::bytea"]
        # The names are those of TABLES below.
        return (
            f"SELECT t.id, {self.queue}, {self.channel}, coalesce(c.context, '{{}}')::text, {', '.join(shown)} "  # noqa: S608
            f"FROM {self.source} WHERE t.id > %s AND {self.where} AND ({' OR '.join(sealed)}) "
            "ORDER BY t.id LIMIT %s FOR UPDATE OF t SKIP LOCKED"
        )

    def write_sql(self) -> str:
        """Return the statement that stores the rows again."""
        names = [*self.columns, *["errors"] * self.errors]
        changes = [f"{name} = u.{name}::jsonb" for name in names] + ["body = u.body"] * self.body
        given = ", ".join(["%s::bigint[]", *["%s::text[]"] * len(names), *["%s::bytea[]"] * self.body])
        return (
            f"UPDATE {self.source.split()[0]} AS t SET {', '.join(changes)} "  # noqa: S608
            f"FROM unnest({given}) AS u ({', '.join(['id', *names, *['body'] * self.body])}) WHERE t.id = u.id"
        )


TABLES = {
    "messages": Stored(
        "pgqueue_message AS t JOIN pgqueue_channel AS c ON c.id = t.channel_id",
        "c.queue", "c.name", ("payload", "state"), where="t.status <> 2",
    ),
    "dead letters": Stored(
        "pgqueue_dead_letter AS t LEFT JOIN pgqueue_channel AS c ON (c.queue, c.name) = (t.queue, t.channel)",
        "t.queue", "t.channel", ("payload", "state", "details"),
    ),
    "schedules": Stored(
        "pgqueue_schedule AS t LEFT JOIN pgqueue_channel AS c ON (c.queue, c.name) = (t.queue, t.channel)",
        "t.queue", "t.channel", ("payload",), errors=False, body=False,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Report one batch. ``last_id``: where the next one begins; ``undecodable``: ids that no key decodes."""

    last_id: int
    encoded: int
    undecodable: list[int]


def encode_anew(kind: str, *, after: int, limit: int, using: str) -> EncodedBatch | None:
    """Encode the next rows of a table with the present codec and its first key, in a transaction of its own.

    ``kind``: one of TABLES. ``after``: the ``last_id`` of the batch before, or 0. ``limit``: the most rows. Messages
    that are leased, and rows that another transaction holds, are left out. ``using``: database alias.

    Returns None if there are no more rows. Raises CodecUnavailable; the batch is then as it was.
    """
    table = TABLES[kind]
    with transaction.atomic(using=using):
        rows = call(using, table.read_sql(), (after, limit))
        if not rows:
            return None
        columns: list[list[Any]] = []
        undecodable = []
        for number, queue, channel, context, *values in rows:
            try:
                columns.append([number, *_encoded(table, values, _place(queue, channel, context))])
            except PayloadUndecodable:
                undecodable.append(number)
        if columns:
            call_update(using, table.write_sql(), [list(column) for column in zip(*columns, strict=True)])
    return EncodedBatch(rows[-1][0], len(columns), undecodable)


def call_update(using: str, sql: str, params: Sequence[Any]) -> None:
    """Run an UPDATE, which returns no rows of its own."""
    call(using, f"{sql} RETURNING t.id", params)


def count_leased(using: str) -> int:
    """Return how many messages are leased, which :func:`encode_anew` leaves out."""
    return int(call(using, LEASED)[0][0])


def _place(queue: str, channel: str, context: str) -> Place:
    return Place(queue, channel, lambda: from_json(context))


def _encoded(table: Stored, values: Sequence[Any], at: Place) -> list[Any]:
    """Return the values of a row in their new stored form."""
    *texts, errors, body = values
    found: list[Any] = [_anew(None if text is None else json.loads(text), at) for text in texts]
    if table.errors:
        listed = None if errors is None else json.loads(errors)
        found.append(json.dumps([_error_anew(error, at) for error in listed]) if isinstance(listed, list) else errors)
    if table.body:
        stored = None if body is None else bytes(body)
        sealed = codecs.is_sealed_body(stored)
        found.append(codecs.sealed_body(codecs.opened_body(stored, at), at) if sealed else stored)
    return found


def _anew(value: Any, at: Place) -> str | None:
    """Return JSON text: that of a stored form encoded anew, any other value as it is."""
    if value is None:
        return None
    return codecs.sealed(json.dumps(codecs.opened(value, at)), at) if codecs.is_sealed(value) else json.dumps(value)


def _error_anew(error: Any, at: Place) -> Any:
    """Return an entry of errors with its encoded part encoded anew."""
    if not isinstance(error, Mapping) or not codecs.is_sealed(error.get("sealed")):
        return error
    return {**error, "sealed": json.loads(_anew(error["sealed"], at) or "null")}
