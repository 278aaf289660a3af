"""Find rows that the database dropped before the lake had them, as far as it can be known afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from typing import Any

from django_pgqueue.spark.export.archive import Partition
from django_pgqueue.spark.export.plan import ExportPlan
from django_pgqueue.spark.export.task import ExportResult
from django_pgqueue.spark.lake.files import ONE_DAY, day_ranges


def find_losses(
    plan: ExportPlan, results: list[ExportResult], state: dict[str, Any], lost: dict[str, int]
) -> Iterator[str]:
    """Yield a text for each partition, or range of days, that was dropped before the lake had all of its rows.

    ``state``: the state of the lake before this export. ``lost``: the messages that the database has counted, by day.
    """
    for day, rows in sorted(lost.items()):
        if state.get("lost", {}).get(day) != rows:
            yield loss_text(day, rows)
    for relation in sorted({result.gone for result in results if result.gone}):
        yield f"{relation} was dropped while it was read: the lake does not have all of its rows."
    present = {partition.day.isoformat() for partition in plan.partitions if partition.day}
    for day in state.get("open_days", []):
        if day not in present and day not in lost:
            yield f"The partition of {day} was dropped since the last export: the lake does not have its late rows."
    absent = find_absent_days(plan.partitions, state, plan.horizon.now.astimezone(UTC).date())
    for days in day_ranges(day for day in absent if day.isoformat() not in lost):
        yield (
            f"The archive has no partition of {days} any more, days since the last export: the lake does not have "
            "their rows, if there were any."
        )


def loss_text(day: str, rows: int) -> str:
    """Return the sentence about messages that were dropped before the lake had them."""
    return f"{rows:,} messages of {day} were dropped before the lake had them."


def find_absent_days(partitions: Iterable[Partition], state: dict[str, Any], today: date) -> Iterator[date]:
    """Yield the days since the last export that are over and have no partition, where retention has been.

    Retention drops the oldest partitions first. A day that is newer than the oldest partition never had one.
    """
    if "exported_at" not in state:
        return
    day = datetime.fromisoformat(state["exported_at"]).astimezone(UTC).date()
    oldest = min((partition.day for partition in partitions if partition.day), default=today)
    while day < min(oldest, today):
        if day.isoformat() not in state.get("open_days", []):
            yield day
        day += ONE_DAY
