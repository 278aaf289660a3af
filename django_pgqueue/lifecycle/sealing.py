"""Encode what is stored of a message with the codec of PAYLOAD_CODEC; without one, leave it as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from django_pgqueue import codecs
from django_pgqueue.codecs import Place
from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.exceptions import InvalidMessage, PayloadUndecodable
from django_pgqueue.jsonb import from_json, to_json
from django_pgqueue.lifecycle.new_messages import Bound
from django_pgqueue.sql.call import call

CONTEXT = "SELECT c.context FROM pgqueue_channel AS c WHERE c.queue = %s::text AND c.name = %s::text"
LIVE = """
SELECT c.queue, c.name, c.context FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
WHERE m.id = %s::bigint
"""
LETTERS = """
SELECT d.id, d.queue, d.channel, d.payload,
    d.state ? '$codec' OR coalesce(
        substring(d.body FROM 1 FOR 15) = decode('00706771756575653a636f64656300', 'hex'), false)
FROM pgqueue_dead_letter AS d
WHERE d.id = ANY (%s::bigint[])
"""
OPENED = ("payload", "state", "result", "details")
# The text of an exception may quote the payload.
TELLING = ("message", "traceback")


def place(queue: str, channel: str, using: str | None) -> Place:
    """Return the queue, channel and context for which a codec encodes a payload.

    The context is read from the database at most once, when the codec asks for it.
    """
    found: list[Mapping[str, Any]] = []

    def read() -> Mapping[str, Any]:
        if not found:
            rows = call(using, CONTEXT, (queue, channel))
            found.append(from_json(rows[0][0]) if rows else {})
        return found[0]

    return Place(queue, channel, read)


def event_text(payload: Any) -> str | None:
    """Return the payload of an event as it is stored: JSON, encoded by the codec if there is one.

    Raises InvalidMessage.
    """
    text = codecs.sealed(to_json(payload, "payload of the event") or "null", codecs.NOWHERE)
    codecs.refuse_stored_form(text, "the payload of the event")
    return text


def place_of(delivery: Leased, using: str | None) -> Place:
    """Return the queue, channel and context of a leased message, for its codec.

    ``delivery``: a Delivery, which has them; a lease with only id and token is looked up in the database.
    """
    if isinstance(delivery, Delivery):
        return Place(delivery.queue, delivery.channel, lambda: delivery.channel_context)
    return place_of_id(delivery.id, using)


def place_of_id(id: int, using: str | None) -> Place:  # noqa: A002  (as everywhere)
    """Return the queue, channel and context of a live message, for its codec; empty ones without such a message."""
    rows = call(using, LIVE, (id,))
    queue, channel, context = rows[0] if rows else ("", "", "{}")
    return Place(queue, channel, lambda: from_json(context))


def seal_new(bound: list[Bound], using: str | None) -> list[Bound]:
    """Return the parameters of new messages with encoded payloads and bodies."""
    if codecs.current() is None:
        return bound
    places: dict[tuple[str, str], Place] = {}
    sealed = []
    for each in bound:
        at = places.setdefault((each.queue, each.channel), place(each.queue, each.channel, using))
        sealed.append(each._replace(payload=codecs.sealed(each.payload, at), body=codecs.sealed_body(each.body, at)))
    return sealed


def seal(deliveries: Sequence[Leased], texts: Sequence[str | None], using: str | None) -> list[str | None]:
    """Return JSON texts, one for each message, in their stored form.

    Raises CodecUnavailable, and InvalidMessage for a text that has the stored form although there is no codec.
    """
    if codecs.current() is None:
        for text in texts:
            codecs.refuse_stored_form(text, "what is saved")
        return list(texts)
    return [
        None if text is None else codecs.sealed(text, place_of(delivery, using))
        for delivery, text in zip(deliveries, texts, strict=True)
    ]


def seal_errors(
    deliveries: Sequence[Leased], errors: Sequence[Mapping[str, Any]], using: str | None
) -> Sequence[Mapping[str, Any]]:
    """Return errors with the text and the traceback in their stored form. Errors of the queue itself, of messages that
    are only id and token, quote no payload."""
    if codecs.current() is None:
        return errors
    return [
        seal_error(error, place_of(delivery, using)) if isinstance(delivery, Delivery) else error
        for delivery, error in zip(deliveries, errors, strict=True)
    ]


def seal_error(error: Mapping[str, Any], at: Place) -> dict[str, Any]:
    """Return the error with the parts encoded that may quote the payload: its text and its traceback."""
    said = {name: error[name] for name in TELLING if name in error}
    rest = {name: value for name, value in error.items() if name not in TELLING}
    return {**rest, "message": "encoded", "sealed": codecs.sealed_value(said, at)} if said else rest


def open_error(error: Mapping[str, Any], at: Place) -> Mapping[str, Any]:
    """Return an error with its text and its traceback."""
    if not codecs.is_sealed(error.get("sealed")):
        return error
    rest = {name: value for name, value in error.items() if name != "sealed"}
    return {**rest, **codecs.opened(error["sealed"], at)}


def seal_letters(ids: list[int], channel: str | None, texts: list[str | None], using: str | None) -> list[str | None]:
    """Return the payloads of dead letters that are redriven: new ones encoded, and those that go to another channel
    decoded and encoded for that channel. None: as it is stored. Raises InvalidMessage for a body or state that is
    encoded and would go to another channel."""
    if len(texts) != len(ids):
        return texts  # the redrive refuses them
    letters = {row[0]: row[1:] for row in call(using, LETTERS, (ids,))}
    found: list[str | None] = []
    for number, text in zip(ids, texts, strict=True):
        queue, old, payload, is_opaque = letters.get(number, ("", "", None, False))
        at, stored = place(queue, channel or old, using), from_json(payload)
        if channel not in (None, old) and is_opaque:
            raise InvalidMessage(
                f"dead letter {number} has an encoded body or state, which cannot go to another channel",
                hint="Redrive it to its own channel.",
            )
        if text is None and channel not in (None, old) and codecs.is_sealed(stored):
            text = to_json(codecs.opened(stored, place(queue, old, using)), "payload") or "null"
        found.append(codecs.sealed(text, at))
    return found


def open_row(row: Any, using: str) -> Any:
    """Decode the columns of a model's row that are loaded, in the row itself, and return the row.

    Raises what a codec raises.
    """
    at = place_of_row(row, using)
    for name in OPENED:
        if codecs.is_sealed(value := row.__dict__.get(name)):
            setattr(row, name, codecs.opened(value, at))
    if isinstance(errors := row.__dict__.get("errors"), list):
        row.errors = [open_error(error, at) if isinstance(error, dict) else error for error in errors]
    return row


def place_of_row(row: Any, using: str) -> Place:
    """Return the place of a row of a model: a live message has its channel, which may be missing, the others its
    name."""
    found = getattr(row, "channel", None)
    if found is None:
        return place("", "", using)
    return place(row.queue, found, using) if isinstance(found, str) else place(found.queue, found.name, using)


BODY_IS_SEALED = "coalesce(substring(t.body FROM 1 FOR 15) = decode('00706771756575653a636f64656300', 'hex'), false)"
LEASED = "SELECT count(*) FROM pgqueue_message AS m WHERE m.status = 2"


@dataclass(frozen=True, slots=True)
class Stored:
    """Describe a table with encoded columns.

    ``source``: the table as t, joined with its channel as c, whose ``context`` it is. ``key``: the columns of the
    primary key, each with its type. ``flow``: the table is one of the app.
    """

    source: str
    queue: str
    channel: str
    columns: tuple[str, ...]
    errors: bool = True
    body: bool = True
    where: str = "true"
    context: str = "c.context"
    key: tuple[tuple[str, str], ...] = (("id", "bigint"),)
    flow: bool = False

    @property
    def start(self) -> tuple[Any, ...]:
        """Return a key before all others."""
        return tuple(FIRST[kind] for _, kind in self.key)

    def read_sql(self) -> str:
        """Return the query for the next rows; it locks them."""
        sealed = [f"t.{column} ? '$codec'" for column in self.columns]
        sealed += ["""t.errors::text LIKE '%%"$codec"%%'"""] * self.errors + [BODY_IS_SEALED] * self.body
        shown = [f"t.{column}::text" for column in self.columns]
        shown += ["t.errors::text" if self.errors else "NULL", "t.body" if self.body else "NULL::bytea"]
        key = ", ".join(f"t.{name}" for name, _ in self.key)
        after = ", ".join(f"%s::{kind}" for _, kind in self.key)
        # The names are those of TABLES below.
        return (
            f"SELECT {key}, {self.queue}, {self.channel}, coalesce({self.context}, '{{}}')::text, {', '.join(shown)} "  # noqa: S608
            f"FROM {self.source} WHERE ({key}) > ({after}) AND {self.where} AND ({' OR '.join(sealed)}) "
            f"ORDER BY {key} LIMIT %s FOR UPDATE OF t SKIP LOCKED"
        )

    def write_sql(self) -> str:
        """Return the statement that stores the rows again."""
        names = [*self.columns, *["errors"] * self.errors]
        changes = [f"{name} = u.{name}::jsonb" for name in names] + ["body = u.body"] * self.body
        keys = [name for name, _ in self.key]
        given = [f"%s::{kind}[]" for _, kind in self.key] + ["%s::text[]"] * len(names) + ["%s::bytea[]"] * self.body
        return (
            f"UPDATE {self.source.split()[0]} AS t SET {', '.join(changes)} "  # noqa: S608
            f"FROM unnest({', '.join(given)}) AS u ({', '.join([*keys, *names, *['body'] * self.body])}) "
            f"WHERE {' AND '.join(f't.{name} = u.{name}' for name in keys)}"
        )


FIRST = {"bigint": 0, "text": "", "uuid": str(UUID(int=0))}
OF_MESSAGE = """(
    EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = t.message_id)
    OR EXISTS (SELECT FROM pgqueue_dead_letter AS d WHERE d.id = t.message_id)
)"""
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
    "logs": Stored(
        "pgqueue_log AS t LEFT JOIN pgqueue_channel AS c ON (c.queue, c.name) = (t.queue, t.channel)",
        "t.queue", "t.channel", ("log",), errors=False, body=False, where=OF_MESSAGE,
        key=(("message_id", "bigint"), ("lease_token", "uuid")),
    ),
    # A wait keeps the payload of its event, which has no channel.
    "steps": Stored(
        "pgqueue_step AS t LEFT JOIN pgqueue_message AS m ON m.id = t.message_id AND t.kind <> 'wait' "
        "LEFT JOIN pgqueue_channel AS c ON c.id = m.channel_id "
        "LEFT JOIN pgqueue_dead_letter AS d ON d.id = t.message_id AND t.kind <> 'wait' "
        "LEFT JOIN pgqueue_channel AS e ON (e.queue, e.name) = (d.queue, d.channel)",
        "coalesce(c.queue, d.queue, '')", "coalesce(c.name, d.channel, '')", ("value",), errors=False, body=False,
        context="coalesce(c.context, e.context)", flow=True,
        key=(("message_id", "bigint"), ("kind", "text"), ("name", "text")),
    ),
    "events": Stored(
        "pgqueue_event AS t", "''", "''", ("payload",), errors=False, body=False, context="NULL::jsonb", flow=True,
        key=(("name", "text"),),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Report one batch. ``last``: the key after which the next one begins; ``undecodable``: the first columns of keys
    whose rows cannot be decoded."""

    last: tuple[Any, ...]
    encoded: int
    undecodable: list[Any]


def encode_anew(kind: str, *, after: tuple[Any, ...], limit: int, using: str) -> EncodedBatch | None:
    """Encode the next rows of a table with the present codec and its first key, in a transaction of its own.

    ``kind``: one of TABLES. ``after``: the ``last`` of the batch before, or the ``start`` of the table. ``limit``: the
    most rows. Messages that are leased, and rows that another transaction holds, are left out. ``using``: database
    alias.

    Returns None if there are no more rows. Raises CodecUnavailable; the batch is then as it was.
    """
    table = TABLES[kind]
    with transaction.atomic(using=using):
        rows = call(using, table.read_sql(), (*after, limit))
        if not rows:
            return None
        columns: list[list[Any]] = []
        undecodable, size = [], len(table.key)
        for row in rows:
            key, (queue, channel, context, *values) = row[:size], row[size:]
            try:
                columns.append([*key, *_encoded(table, values, _place(queue, channel, context))])
            except PayloadUndecodable:
                undecodable.append(key[0])
        if columns:
            call_update(using, table.write_sql(), [list(column) for column in zip(*columns, strict=True)])
    return EncodedBatch(rows[-1][:size], len(columns), undecodable)


def call_update(using: str, sql: str, params: Sequence[Any]) -> None:
    """Run an UPDATE, which returns no rows of its own."""
    call(using, f"{sql} RETURNING true", params)


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
