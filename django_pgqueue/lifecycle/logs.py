"""Keep what the handlers of messages have logged, and read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_pgqueue.delivery import Delivery
from django_pgqueue.jsonb import from_json
from django_pgqueue.lifecycle.sealing import seal
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import json_texts

KEEP = """
SELECT pgqueue_keep_logs(
    %s::bigint[], %s::uuid[], %s::integer[], string_to_array(%s::text, chr(31), '')::jsonb[])
"""
LOGS = (
    "SELECT l.attempt, l.written_at, l.log FROM pgqueue_log AS l WHERE l.message_id = %s::bigint ORDER BY l.written_at"
)


@dataclass(frozen=True, slots=True)
class KeptLog:
    """Hold what one delivery of a message has logged.

    ``attempt``: its number, which several deliveries may have. ``written_at``: when the delivery was settled. ``log``:
    a text, or the stored form of a codec.
    """

    attempt: int
    written_at: datetime
    log: Any


def keep_logs(deliveries: Sequence[Delivery], logs: Sequence[str], *, using: str | None = None) -> None:
    """Keep the log of a delivery of each message, in the transaction that has settled it.

    ``logs``: one text a message; an empty one is not kept. ``using``: database alias; default: the queue's. A message
    whose payload the archive does not keep has no log afterwards, also not of earlier deliveries.
    """
    if deliveries:
        # Not limited by MAX_PAYLOAD: a log must not make a settlement fail.
        texts = seal(deliveries, [json.dumps(log) if log else None for log in logs], using)
        ids, tokens = [each.id for each in deliveries], [each.token for each in deliveries]
        call(using, KEEP, (ids, tokens, [each.attempt for each in deliveries], json_texts(texts)))


def logs_of(message: int, *, using: str | None = None) -> list[KeptLog]:
    """Return the stored logs of a message, the earliest first."""
    return [KeptLog(attempt, at, from_json(log)) for attempt, at, log in call(using, LOGS, (message,))]
