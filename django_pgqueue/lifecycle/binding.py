"""From Python values to parameters of the SQL functions, and back."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder

from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.exceptions import InvalidMessage

logger = logging.getLogger("django_pgqueue.worker")

NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
SURROGATE_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\ud[89a-f]")

# Moments as text: datetime.fromisoformat takes a tenth of the time of psycopg's and Django's loaders.
DELIVERY_COLUMNS = (
    "id, channel, handler, payload, body, headers, priority, attempts, max_attempts, token, lease_expires_at::text, "
    "state, created_at::text, dequeue_at::text, context"
)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that cannot become a delivery. ``token``: of its lease, if it has one."""

    id: int
    token: UUID | None
    problem: str


def to_json(value: Any, what: str) -> str | None:
    """JSON text that PostgreSQL takes; None stays None.

    Raises InvalidMessage for what is not JSON, for NaN and infinities, and for \\u0000, which jsonb cannot hold.
    """
    if value is None:
        return None
    try:
        text = json.dumps(value, cls=DjangoJSONEncoder, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(
            f"the {what} is not JSON: {error}", hint="Pass dicts, lists, strings, numbers, dates."
        ) from error
    if NUL_ESCAPE.search(text):
        raise InvalidMessage(
            f"the {what} contains the character \\u0000, which PostgreSQL cannot store",
            hint="Remove it, or send raw bytes as body.",
        )
    if SURROGATE_ESCAPE.search(text):
        try:
            json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InvalidMessage(
                f"the {what} contains half a surrogate pair: it is not text", hint="Send it as body."
            ) from error
    return text


def from_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def aware(moment: datetime | None, what: str) -> datetime | None:
    """The moment, if it names one: a naive datetime does not."""
    if moment is not None and moment.tzinfo is None:
        raise InvalidMessage(f"{what} is a naive datetime", hint="Use django.utils.timezone.now() or make_aware().")
    return moment


def duration(value: timedelta | None, what: str) -> timedelta | None:
    if value is not None and not isinstance(value, timedelta):
        raise InvalidMessage(
            f"{what} is not a timedelta but {type(value).__name__}", hint="Use datetime.timedelta(seconds=…)."
        )
    return value


def listed(deliveries: Delivery | Iterable[Leased]) -> list[Leased]:
    return [deliveries] if isinstance(deliveries, Delivery) else list(deliveries)


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
                "message #%d on queue %s cannot be read: %s", row[0], queue, unreadable[-1].problem,
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
        worker=worker,
    )
