"""Find the days that a rollup has to compute: days with messages that the last rollup did not know.

The state of the lake has three keys for it: ``rolled_up``, the commit up to which days were collected;
``rollup_pending``, days that are known but not computed yet; ``created_days``, by day of settlement the other days on
which its messages were created.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from django_pgqueue.spark.lake import Commit, ParquetLake
from django_pgqueue.spark.lake.commit import day_of

MESSAGES = ("archive", "dead_letter")


@dataclass(slots=True)
class Touched:
    """The days that a rollup has to compute.

    ``commit``: the newest commit that was examined. ``created_days``: by day of settlement the other days on which its
    messages were created.
    """

    commit: int
    days: set[date]
    created_days: dict[date, set[date]] = field(default_factory=dict)

    def settled_on(self, days: Collection[date]) -> set[date]:
        """Return the days on which messages that were created on ``days`` were settled, with ``days`` themselves."""
        return {*days} | {settled for settled, created in self.created_days.items() if not created.isdisjoint(days)}

    def settled_or_created(self, settled: date) -> set[date]:
        """Return ``settled`` and the days on which the messages that were settled on it had been created."""
        return {settled} | self.created_days.get(settled, set())

    def state(self) -> dict[str, Any]:
        """Return the keys of the lake's state to commit."""
        return {
            "rolled_up": self.commit,
            "rollup_pending": sorted(day.isoformat() for day in self.days),
            "created_days": {
                settled.isoformat(): sorted(day.isoformat() for day in created)
                for settled, created in sorted(self.created_days.items())
            },
        }


def find_touched(lake: ParquetLake, *, everything: bool = False) -> Touched:
    """Return the days to compute now; ``everything``: all days on which the lake ever had messages."""
    head, state = lake.head, {} if everything else lake.state
    touched = Touched(
        commit=head.number,
        days={date.fromisoformat(day) for day in state.get("rollup_pending", [])},
        created_days={
            date.fromisoformat(settled): {date.fromisoformat(day) for day in created}
            for settled, created in state.get("created_days", {}).items()
        },
    )
    for number in lake.commit_numbers():
        if number > state.get("rolled_up", 0):
            _look_at(lake.commit(number), touched)
    return touched


def _look_at(commit: Commit, touched: Touched) -> None:
    if commit.kind == "compact" and not commit.merged:
        return  # its rows were in the lake before
    for path in commit.removed:
        table, _, rest = path.partition("/")
        if table in MESSAGES:
            settled = day_of(rest.rpartition("/")[0])
            touched.days |= touched.settled_or_created(settled)
    for file in commit.files:
        if file.table in MESSAGES:
            created = {date.fromisoformat(day) for day in file.more.get("created_days", [])}
            touched.days |= {file.day} | created
            if others := created - {file.day}:
                touched.created_days.setdefault(file.day, set()).update(others)
