"""Read the errors of a message: its failed attempts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

UNKNOWN = "unknown"
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt.

    ``micros``: how long its handler ran, in microseconds; 0 if that is not known. ``put_back``: another attempt
    followed, or the wait for it. Otherwise its time is that of the last handler.
    """

    reason: str
    micros: int
    put_back: bool


def parse_failures(errors: str, attempts: int | None, *, was_leased: bool) -> Iterator[FailedAttempt]:
    """Yield the failed attempts of a message. An entry that cannot be read is a failure for an unknown reason.

    ``errors``: a JSON array; callers of SQL functions give it. ``attempts``: those of the message. ``was_leased``: it
    was leased when it was settled.
    """
    try:
        entries = json.loads(errors)
    except ValueError:
        return
    for entry in entries if isinstance(entries, list) else []:
        fields = entry if isinstance(entry, dict) else {}
        reason, attempt, began = (_text(fields.get(name)) for name in ("type", "attempt", "started_at"))
        yield FailedAttempt(
            UNKNOWN if reason is None else reason,
            _micros_between(_text(fields.get("leased_at")) if began is None else began, _text(fields.get("at"))),
            not was_leased or attempt is None or attempt != str(attempts),
        )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _micros_between(began: str | None, ended: str | None) -> int:
    if began is None or ended is None:
        return 0
    try:
        return (_moment(ended) - _moment(began)) // MICROSECOND
    except ValueError:
        return 0


def _moment(text: str) -> datetime:
    """Return a time in ISO 8601, in UTC unless it says otherwise. Raises ValueError, also for infinity."""
    moment = datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
