"""Find the days that a rollup has to compute: days with messages that the last rollup did not know."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.lake.files import METADATA, changed_partitions, day_of, files_of, state_of
from django_pgqueue.spark.lake.rows import created_days
from django_pgqueue.spark.schema import DAYS


@dataclass(slots=True)
class Touched:
    """The days that a rollup has to compute.

    ``versions``: those of the tables that were examined. ``files``: all files of messages.
    """

    versions: dict[str, int]
    days: set[date]
    files: list[LakeFile]

    @property
    def messages(self) -> Counter[date]:
        """Return how many messages the lake has, by day of settlement."""
        counted: Counter[date] = Counter()
        for file in self.files:
            counted[file.day] += file.rows
        return counted

    def settled_on(self, days: Collection[date]) -> set[date]:
        """Return the days on which messages that were created on ``days`` were settled, with ``days`` themselves, and
        perhaps more days."""
        created = ((file.day, file.created) for file in self.files if file.created)
        return {*days} | {day for day, (first, last) in created if _within(days, first.date(), last.date())}

    def state(self) -> dict[str, Any]:
        """Return the state of the metrics to commit."""
        return {"rolled_up": self.versions, "pending": sorted(day.isoformat() for day in self.days)}


def find_touched(lake: Lake, *, everything: bool = False) -> Touched:
    """Return the days to compute now; ``everything``: all days of the lake's messages and of its metrics."""
    tables = {table: lake.delta(table) for table in DAYS}
    versions = {table: delta.version() for table, delta in tables.items()}
    files = [file for table, delta in tables.items() for file in files_of(delta, table)]
    known = state_of(lake.delta("metrics"))
    touched = Touched(versions, {date.fromisoformat(day) for day in known.get("pending", [])}, files)
    try:
        if everything or not known.get("rolled_up"):
            raise FileNotFoundError
        for table in DAYS:
            for actions in lake.log(table, known["rolled_up"][table]):
                touched.days |= changed_days(actions)
    except FileNotFoundError:
        # The log does not go back so far.
        touched.days = {file.day for file in lake.files("metrics")} | {
            day for file in files for day in (file.day, *_created_days(lake, file))
        }
    return touched


def changed_days(actions: Sequence[dict[str, Any]]) -> set[date]:
    """Return the days whose figures a version changes: those of its rows, and those on which they were created."""
    days = {day_of(partition) for partition in changed_partitions(actions)}
    for action in actions:
        noted = action.get("commitInfo", {}).get(METADATA)
        if noted:
            days |= {date.fromisoformat(day) for day in json.loads(noted)["created_days"]}
    return days


def _created_days(lake: Lake, file: LakeFile) -> set[date]:
    if file.created and {at.date() for at in file.created} == {file.day}:
        return {file.day}
    return created_days(lake.path / file.path)


def _within(days: Collection[date], first: date, last: date) -> bool:
    return any(first <= day <= last for day in days)
