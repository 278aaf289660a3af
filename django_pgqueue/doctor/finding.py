"""Define findings, their severity, and the limits from where on something is reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import Any

from django_pgqueue.redaction import printable, redact


class Severity(IntEnum):
    """Rank findings. The number is the exit status of ``pgqueue doctor``, as monitors understand it."""

    NOTE = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        """Return the severity in lower case."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold one problem and what to do about it.

    ``code``: a stable name of the problem. ``facts``: values for programs, as JSON; times are ISO 8601, durations
    seconds. They never contain queries, payloads or addresses.
    """

    code: str
    severity: Severity
    problem: str
    action: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """Set from where on something is reported.

    old_transaction      a transaction this old is a warning; from ``very_old_transaction`` on it is critical
    old_xids             transactions that a slot or a standby may be behind
    slot_bytes           write-ahead log that an inactive slot may keep
    dead_rows            in one table; ten times as many are critical
    bloat_bytes          tables and indexes that are smaller are not examined
    freeze_age           age of the oldest row in transactions, at most 2,000,000,000; twice as old is critical
    notify_usage         share of the NOTIFY queue; five times as much is critical
    waiting              None: the setting WAITING_WARNING
    unattended           after this time an expired lease, a schedule or a tick is late
    clock                difference of two clocks
    most                 messages, channels or rows that one examination reads
    """

    old_transaction: timedelta = timedelta(minutes=5)
    very_old_transaction: timedelta = timedelta(hours=1)
    old_xids: int = 1_000_000
    slot_bytes: int = 1 << 30
    dead_rows: int = 100_000
    bloat_bytes: int = 256 << 20
    freeze_age: int = 600_000_000
    notify_usage: float = 0.1
    waiting: timedelta | None = None
    unattended: timedelta = timedelta(minutes=1)
    clock: timedelta = timedelta(seconds=2)
    most: int = 10_000


SHOWN_NAMES = 10
"""The most names in a text or in facts; the total is given beside them."""


def safe_name(text: str | None) -> str:
    """Return a name that clients choose as one line of text without secrets."""
    return printable(redact(text or "?"))


def list_text(names: list[str]) -> str:
    """Return the names as ``a, b and 3 more``."""
    shown = ", ".join(map(safe_name, names[:SHOWN_NAMES]))
    return f"{shown} and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else shown


def age_text(age: timedelta) -> str:
    """Return a duration as ``5 s``, ``3 min``, ``2 h 5 min`` or ``4 d 2 h``."""
    seconds = int(age.total_seconds())
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if minutes < 1:
        return f"{seconds} s"
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min"
    return f"{days} d {hours % 24} h"


def size_text(count: int) -> str:
    """Return a number of bytes as ``12 MB``; binary multiples."""
    for unit in ("bytes", "kB", "MB"):
        if count < 10_240:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GB"
