"""From Python values to parameters of the SQL functions, and back."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.exceptions import InvalidMessage

logger = logging.getLogger("django_pgqueue.worker")

NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
SURROGATE_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\ud[89a-f]")

# Moments as text: datetime.fromisoformat takes a tenth of the time of psycopg's and Django's loaders.
DELIVERY_COLUMNS = (
    "id, channel, handler, payload, body, headers, priority, attempts, max_attempts, token, lease_expires_at::text, "
    "state, created_at::text, dequeue_at::text, context, last_leased_at::text"
)


class Encoder(DjangoJSONEncoder):
    """Django's, and dataclasses as objects, enums as their values: what a typed payload is made of."""

    def default(self, value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        if isinstance(value, Enum):
            return value.value
        return super().default(value)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that cannot become a delivery. ``token``: of its lease, if it has one."""

    id: int
    token: UUID | None
    problem: str


def to_json(value: Any, what: str) -> str | None:
    """JSON text that PostgreSQL takes; None stays None.

    Raises InvalidMessage for what is not JSON, for NaN and infinities, for \\u0000, which jsonb cannot hold, and for
    more than MAX_PAYLOAD bytes.
    """
    if value is None:
        return None
    try:
        text = json.dumps(value, cls=Encoder, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(
            f"something in the {what} is not JSON: {error}", hint="Pass dicts, lists, strings, numbers, dates."
        ) from error
    limit_size(len(text), what)
    if NUL_ESCAPE.search(text):
        raise InvalidMessage(
            f"the {what} contains the character \\u0000, which PostgreSQL cannot store",
            hint="Remove it, or send raw bytes as body.",
        )
    if SURROGATE_ESCAPE.search(text):
        try:
            json.dumps(value, cls=Encoder, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InvalidMessage(
                f"the {what} contains half a surrogate pair: it is not text", hint="Send it as body."
            ) from error
    return text


def limit_size(size: int, what: str) -> None:
    """Raise InvalidMessage for more than MAX_PAYLOAD bytes, before they are sent and without quoting any of them."""
    if size > settings.MAX_PAYLOAD:
        raise InvalidMessage(
            f"the {what} takes {size:,} bytes, more than the setting MAX_PAYLOAD allows ({settings.MAX_PAYLOAD:,})",
            hint="Store it elsewhere and send its address or id.",
        )


def from_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def listed(deliveries: Delivery | Iterable[Leased]) -> list[Leased]:
    """Return the deliveries as a list: of one, or of several. Raises InvalidMessage for what has no id or no token."""
    if isinstance(deliveries, str | bytes) or not isinstance(deliveries, Delivery | Iterable):
        raise InvalidMessage(
            f"a delivery is expected, not {type(deliveries).__name__}",
            hint="Pass what dequeue() returned, or a list of it.",
        )
    found: list[Leased] = [deliveries] if isinstance(deliveries, Delivery) else list(deliveries)
    for each in found:
        if not (hasattr(each, "id") and hasattr(each, "token")):
            raise InvalidMessage(
                f"a delivery is expected, not {type(each).__name__}",
                hint="Pass what dequeue() returned, or a list of it.",
            )
    return found


def mapping(headers: Any) -> dict[str, Any]:
    if not isinstance(headers, dict | None):
        raise ValueError(f"the headers are no object but {type(headers).__name__}")
    return headers or {}


def leases(deliveries: Sequence[Leased | Unreadable]) -> tuple[str, str]:
    """Ids and tokens, as all settling functions take them: arrays as text, which psycopg need not look through."""
    ids = ",".join([str(delivery.id) for delivery in deliveries])
    tokens = ",".join([delivery.token.hex if delivery.token else "NULL" for delivery in deliveries])
    return f"{{{ids}}}", f"{{{tokens}}}"


def from_text(moment: str | None) -> datetime | None:
    return None if moment is None else datetime.fromisoformat(moment)


def to_deliveries(
    queue: str, rows: Iterable[tuple[Any, ...]], worker: str | None = None
) -> tuple[list[Delivery], list[Unreadable]]:
    """Rows of DELIVERY_COLUMNS as deliveries, and those that Python cannot read: SQL enqueues JSON that is deeper, has
    longer numbers or times longer ago than Python knows. Never an exception: the others are leased too."""
    readable, unreadable = [], []
    for row in rows:
        try:
            readable.append(to_delivery(queue, row, worker))
        except (ValueError, TypeError, RecursionError) as error:
            unreadable.append(Unreadable(row[0], row[9], f"{type(error).__name__}: {error}"))
            logger.error(
                "message #%d on %s/%s cannot be read: %s", row[0], queue, row[1], unreadable[-1].problem,
                extra={"event": "unreadable", "message_id": row[0], "queue": queue, "channel": row[1]},
            )  # fmt: skip
    return readable, unreadable


def to_delivery(queue: str, row: tuple[Any, ...], worker: str | None = None) -> Delivery:
    """A row of DELIVERY_COLUMNS as a Delivery."""
    return Delivery(
        id=row[0],
        queue=queue,
        channel=row[1],
        handler=row[2],
        payload=from_json(row[3]),
        body=None if row[4] is None else bytes(row[4]),
        headers=mapping(from_json(row[5])),
        priority=row[6],
        attempt=row[7],
        max_attempts=row[8],
        token=row[9],
        lease_expires_at=from_text(row[10]),
        state=from_json(row[11]),
        created_at=datetime.fromisoformat(row[12]),
        dequeue_at=datetime.fromisoformat(row[13]),
        channel_context=from_json(row[14]) or {},
        last_leased_at=from_text(row[15]),
        worker=worker,
    )
