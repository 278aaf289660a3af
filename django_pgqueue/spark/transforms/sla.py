"""Parse the options ``--sla default=30s --sla default/tenant-7=5m``, which say how long messages may take."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta

from django_pgqueue.spark.errors import PipelineError

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"(\d{1,8}(?:\.\d{1,8})?)\s*(ms|s|m|h|d|)")


def parse_sla(entries: Iterable[str]) -> dict[str, timedelta]:
    """Return durations by "queue" or "queue/channel", from texts such as "default=30s". Raises PipelineError."""
    return dict(_entry(entry) for entry in entries)


def parse_duration(text: str) -> timedelta | None:
    """Return a duration from a text such as 30s, 5m or 1.5h; None for another text, and for none at all."""
    match = DURATION.fullmatch(text.strip())
    return timedelta(seconds=float(match[1]) * UNITS[match[2] or "s"]) or None if match else None


def _entry(entry: str) -> tuple[str, timedelta]:
    # A name may contain "=".
    name, separator, duration = entry.rpartition("=")
    limit = parse_duration(duration)
    if not separator or not name or limit is None:
        raise PipelineError(f"--sla {entry!r} is not understood: give QUEUE=30s or QUEUE/CHANNEL=5m (ms, s, m, h, d).")
    return name, limit
