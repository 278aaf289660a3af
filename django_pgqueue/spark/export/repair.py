"""Find the rows that the lake lacks, although an earlier export should have brought them, and what must leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark.errors import unreadable
from django_pgqueue.spark.export.comparison import NAMES, DayComparison, compare_days
from django_pgqueue.spark.lake import Lake, LakeFile, StagedFile
from django_pgqueue.spark.lake.rows import rewrite
from django_pgqueue.spark.lake.writing import Writing
from django_pgqueue.spark.source import Source

# By table and day, the ids of the rows that the lake lacks; None: it has no row of the day.
Missing = Mapping[tuple[str, date], Sequence[int] | None]


@dataclass(frozen=True, slots=True)
class Repair:
    """The repair of a lake.

    ``compared``: the days that were compared. ``lost``: committed files of these days that are not there any more.
    ``committed``: the rows of these days by the commits of the lake.
    """

    compared: tuple[DayComparison, ...] = ()
    lost: tuple[LakeFile, ...] = ()
    committed: Mapping[tuple[str, date], int] = field(default_factory=dict)

    @property
    def missing(self) -> Missing:
        """Return the ids to read, by table and day."""
        return {
            (day.table, day.day): sorted(day.lacking.to_pylist()) if day.kept else None
            for day in self.compared
            if len(day.lacking)
        }

    @property
    def days(self) -> tuple[date, ...]:
        """Return the days of the archive and of the dead letters that are repaired, in order."""
        return tuple(sorted({day.day for day in self.compared if len(day.lacking) or replaced_paths(day)}))

    def removed(self, lake: Lake) -> list[LakeFile]:
        """Return the files that go: those that are missing, cannot be read, or have rows of other messages."""
        goes = {path for day in self.compared for path in replaced_paths(day)} | {file.path for file in self.lost}
        return [file for table in NAMES for file in lake.files(table) if file.path in goes] if goes else []

    def rewritten(self, writing: Writing) -> list[StagedFile]:
        """Stage the files anew whose ids the database has given to other messages, without the rows of these ids."""
        staged: list[StagedFile] = []
        for day in self.compared:
            for file in writing.lake.files(day.table, [day.day]) if day.conflicting else ():
                if (ids := day.conflicting.get(file.path)) is not None:
                    folder = writing.stage(file.table, file.partition).parent
                    staged += map(writing.staged, rewrite(writing.lake, [file], folder, others(ids)))
        return staged

    def losses(self) -> Iterator[str]:
        """Yield a text for each day of which rows were in lost or damaged files, and in the database no more."""
        damaged = {(file.table, file.day) for file in self.lost}
        damaged |= {(day.table, day.day) for day in self.compared if day.unreadable}
        for day in self.compared:
            gone = self.committed.get((day.table, day.day), 0) - day.kept - len(day.lacking)
            if (day.table, day.day) in damaged and gone > 0:
                yield (
                    f"{NAMES[day.table]} of {day.day}: {gone:,} of the rows in missing or damaged files "
                    f"{'is' if gone == 1 else 'are'} not in the database any more: only a copy of the lake has them."
                )


def find_repair(source: Source, connection: psycopg.Connection[Any], lake: Lake) -> Repair:
    """Compare each day that the database has with the lake, and return what to repair.

    Rows that only the lake has stay: the database deletes by retention. Raises PipelineError when a file of dead
    letters cannot be read, since it may have letters that the database has deleted.
    """
    # The files of a day that is empty in the database stay as they are: nothing can be brought back.
    compared = tuple(day for day in compare_days(source, connection, lake) if day.there)
    for day in compared:
        if day.table == "dead_letter" and day.unreadable:
            raise unreadable(lake.path / day.unreadable[0])
    days = {(day.table, day.day) for day in compared}
    files = [file for table in NAMES for file in lake.files(table) if (table, file.day) in days]
    committed: dict[tuple[str, date], int] = {}
    for file in files:
        committed[file.table, file.day] = committed.get((file.table, file.day), 0) + file.rows
    lost = tuple(file for file in files if not (lake.path / file.path).exists())
    return Repair(compared, lost, committed)


def replaced_paths(day: DayComparison) -> set[str]:
    """Return the files of a day that go: those that cannot be read, and those with rows of other messages."""
    return {*day.unreadable, *day.conflicting}


def others(ids: pa.Array) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Return a function that returns a mask of the rows of a batch that do not have these ids."""
    return lambda batch: pc.invert(pc.is_in(batch.column("id"), value_set=ids))
