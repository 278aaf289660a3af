"""Convert Python values to parameters of the SQL functions, and rows to deliveries."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django_pgqueue import codecs
from django_pgqueue.delivery import Cancellation, Delivery, Leased, UnsealedDelivery
from django_pgqueue.exceptions import CodecUnavailable, InvalidMessage
from django_pgqueue.jsonb import from_json
from django_pgqueue.sql.values import plain_texts

logger = logging.getLogger("django_pgqueue.worker")

# No lease has this token. With array_nulls = off, a NULL in the text of an array is an error.
NO_TOKEN = "0" * 32
uuid_of_text = lru_cache(maxsize=256)(UUID)

# Moments as text: datetime.fromisoformat takes a tenth of the time of psycopg's and Django's loaders. The token as
# text: the messages of a dequeue share one.
DELIVERY_COLUMNS = (
    "id, channel, handler, payload, body, headers, priority, attempts, max_attempts, token::text, "
    "lease_expires_at::text, state, created_at::text, dequeue_at::text, context, last_leased_at::text"
)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Name a message that cannot become a delivery. ``token``: the token of its lease, if it has one.

    ``reason``: why it is a dead letter; None: the message waits, because its codec may decode it later. ``kind``: the
    type in its details.
    """

    id: int
    token: UUID | None
    problem: str
    reason: str | None = "unreadable"
    kind: str = "Unreadable"


def delivery_list(deliveries: Delivery | Iterable[Leased]) -> list[Leased]:
    """Return one delivery or several as a list. Raises InvalidMessage for a value that has no id or no token."""
    if isinstance(deliveries, str | bytes) or not isinstance(deliveries, Delivery | Iterable):
        raise InvalidMessage(
            f"a delivery is expected, not {type(deliveries).__name__}",
            hint="Pass what dequeue() returned, or a list of it.",
        )
    found: list[Leased] = [deliveries] if isinstance(deliveries, Delivery) else list(deliveries)
    for each in (stranger for stranger in found if not isinstance(stranger, Delivery)):
        if not (hasattr(each, "id") and hasattr(each, "token")):
            raise InvalidMessage(
                f"a delivery is expected, not {type(each).__name__}",
                hint="Pass what dequeue() returned, or a list of it.",
            )
    return found


def headers_of(headers: Any) -> dict[str, Any]:
    """Return the headers as a dict. Raises ValueError if they are JSON of another kind."""
    if not isinstance(headers, dict | None):
        raise ValueError(f"the headers are no object but {type(headers).__name__}")
    return headers or {}


def lease_columns(deliveries: Sequence[Leased | Unreadable]) -> tuple[str, str]:
    """Return ids and tokens as all settling functions take them: as text of two arrays, which psycopg sends
    unchanged."""
    ids = ",".join([str(delivery.id) for delivery in deliveries])
    tokens = ",".join([delivery.token.hex if delivery.token else NO_TOKEN for delivery in deliveries])
    return f"{{{ids}}}", f"{{{tokens}}}"


def seconds_array(durations: Sequence[float | None] | None, messages: int) -> str | None:
    """Return how long handlers ran, in seconds, for ``string_to_array``; None: unknown, for all or for one of them.

    ``messages``: how many durations there must be. Raises InvalidMessage if there are not so many.
    """
    if durations is None:
        return None
    if len(durations) != messages:
        raise InvalidMessage("ran_seconds takes one number of seconds for each message")
    return plain_texts(durations, "{:.6f}".format)


def moment_of_text(moment: str | None) -> datetime | None:
    """Return the text of a timestamp as an aware datetime, or None."""
    return None if moment is None else datetime.fromisoformat(moment)


def token_of(row: tuple[Any, ...]) -> UUID | None:
    """Return the token of a row of DELIVERY_COLUMNS, or None."""
    return None if row[9] is None else uuid_of_text(row[9])


def to_deliveries(
    queue: str, rows: Iterable[tuple[Any, ...]], worker: str | None = None
) -> tuple[list[Delivery], list[Unreadable]]:
    """Return rows of DELIVERY_COLUMNS as deliveries, and apart from them the rows that Python cannot read.

    SQL can enqueue JSON that is nested deeper, numbers that are longer, and times that are earlier than Python
    supports, and a codec may lack a key. Such a row raises nothing, because the other messages are leased too.
    """
    readable, unreadable = [], []
    for row in rows:
        try:
            readable.append(to_delivery(queue, row, worker))
        except codecs.FAILURES as error:
            later = isinstance(error, CodecUnavailable)
            reason = None if later else "undecodable"
            unreadable.append(Unreadable(row[0], token_of(row), str(error), reason, "PayloadUndecodable"))
            logger.error(
                "message #%d on %s/%s cannot be decoded%s: %s", row[0], queue, row[1], " now" if later else "", error,
                extra={
                    "event": "codec_unavailable" if later else "undecodable", "message_id": row[0], "queue": queue,
                    "channel": row[1],
                },
            )  # fmt: skip
        except (ValueError, TypeError, RecursionError) as error:
            unreadable.append(Unreadable(row[0], token_of(row), f"{type(error).__name__}: {error}"))
            logger.error(
                "message #%d on %s/%s cannot be read: %s", row[0], queue, row[1], unreadable[-1].problem,
                extra={"event": "unreadable", "message_id": row[0], "queue": queue, "channel": row[1]},
            )  # fmt: skip
    return readable, unreadable


def to_delivery(queue: str, row: tuple[Any, ...], worker: str | None = None) -> Delivery:
    """Return a row of DELIVERY_COLUMNS as a Delivery. Raises what a codec raises."""
    payload, state, context = from_json(row[3]), from_json(row[11]), from_json(row[14]) or {}
    body = None if row[4] is None else bytes(row[4])
    if codecs.is_sealed(payload) or codecs.is_sealed(state) or codecs.is_sealed_body(body):
        place = codecs.Place(queue, row[1], lambda: context)
        payload, state = codecs.opened(payload, place), codecs.opened(state, place)
        body = codecs.opened_body(body, place)
    delivery: Any = UnsealedDelivery.__new__(UnsealedDelivery)  # the fields of a Delivery are read-only
    delivery.id = row[0]
    delivery.queue = queue
    delivery.channel = row[1]
    delivery.handler = row[2]
    delivery.payload = payload
    delivery.body = body
    delivery.headers = headers_of(from_json(row[5]))
    delivery.priority = row[6]
    delivery.attempt = row[7]
    delivery.max_attempts = row[8]
    delivery.token = token_of(row)
    delivery.lease_expires_at = moment_of_text(row[10])
    delivery.state = state
    delivery.created_at = datetime.fromisoformat(row[12])
    delivery.dequeue_at = datetime.fromisoformat(row[13])
    delivery.channel_context = context
    delivery.last_leased_at = moment_of_text(row[15])
    delivery.worker = worker
    delivery.cancellation = Cancellation()
    sealed: Delivery = delivery.seal()
    return sealed
