"""Rollups of a lake of many days in which little is new: nothing, or one new day."""

from __future__ import annotations

import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from .rollup import DAY, fill, run, summary

PER_DAY = 250_000
NEW = 20_000  # messages of the new day


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report."""
    days = max(1, rows // PER_DAY)
    with tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-") as folder:
        path = Path(folder) / "lake"
        for number in range(days):
            fill(path, DAY + timedelta(days=number), rows // days)
        command = [sys.executable, "-m", "django_pgqueue.spark", "rollup", "--lake", str(path)]
        first, nothing, little = [run(command)], [], []
        for number in range(rounds):
            nothing.append(run(command))
            fill(path, DAY + timedelta(days=days + number), NEW)
            little.append(run(command))
    return [
        f"rollups of a lake of {rows:,} messages in {days:,} days",
        f"  the first: {summary(first)}",
        f"  nothing new: {summary(nothing)}",
        f"  a new day of {NEW:,} messages: {summary(little)}",
    ]
