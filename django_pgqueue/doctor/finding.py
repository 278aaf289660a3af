"""What an examination finds, and what counts as much."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import Any

from django_pgqueue.redaction import printable, redact


class Severity(IntEnum):
    """The number is the exit status of ``queuedoctor``, as monitors understand it."""

    NOTE = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """``code``: a stable name of the problem. ``facts``: what programs need, as JSON; times are ISO 8601, durations
    seconds. Queries, payloads and addresses are never among them."""

    code: str
    severity: Severity
    problem: str
    action: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on something is told.

    old_transaction      a transaction this old is a warning, ``very_old_transaction``: critical
    old_xids             transactions that a slot or a standby may be behind
    slot_bytes           write-ahead log that an inactive slot may keep
    dead_rows            in one table; ten times as many are critical
    bloat_bytes          tables and indexes that are smaller are not looked at
    freeze_age           age of the oldest row in transactions, at most 2,000,000,000; twice as old is critical
    notify_usage         share of the NOTIFY queue; five times as much is critical
    waiting              None: the setting WAITING_WARNING
    unattended           since when an expired lease, a schedule or a tick is late
    clock                difference of two clocks
    most                 messages, channels or rows that one examination looks at
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


SHOWN = 10
"""So many names are told; how many there are is told besides."""


def name(text: str | None) -> str:
    """A name that clients choose, as a text that cannot look like anything else and holds no secret."""
    return printable(redact(text or "?"))


def listed(names: list[str]) -> str:
    """``a, b and 3 more``"""
    shown = ", ".join(map(name, names[:SHOWN]))
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


def words(age: timedelta) -> str:
    """``5 s``, ``3 min``, ``2 h 5 min``, ``4 d 2 h``"""
    seconds = int(age.total_seconds())
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if minutes < 1:
        return f"{seconds} s"
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min"
    return f"{days} d {hours % 24} h"


def size(count: int) -> str:
    """``12 MB``; binary multiples."""
    for unit in ("bytes", "kB", "MB"):
        if count < 10_240:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GB"
