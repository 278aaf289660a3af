"""Find the rows that the lake lacks, although an earlier export should have brought them, and what must leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark.errors import unreadable
from django_pgqueue.spark.export.comparison import NAMES, DayComparison, compare_days
from django_pgqueue.spark.lake import Lake, LakeFile, StagedFile
from django_pgqueue.spark.lake.rows import rewrite
from django_pgqueue.spark.lake.tables import LakeTables
from django_pgqueue.spark.lake.writing import Writing
from django_pgqueue.spark.source import Source

# By table and day, the ids of the rows that the lake lacks; None: it has no row of the day.
Missing = Mapping[tuple[str, date], Sequence[int] | None]


@dataclass(frozen=True, slots=True)
class Repair:
    """The repair of a lake. ``compared``: the days that lake and database have."""

    compared: tuple[DayComparison, ...] = ()

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
        return tuple(sorted({day.day for day in self.compared if len(day.lacking) or day.replaced}))

    def removed(self, lake: LakeTables) -> list[LakeFile]:
        """Return the files that go: those that are missing, cannot be read, or have rows of other messages."""
        goes = {path for day in self.compared for path in (*day.replaced, *day.missing)}
        return [file for table in NAMES for file in lake.files(table) if file.path in goes] if goes else []

    def rewritten(self, writing: Writing) -> list[StagedFile]:
        """Stage the files anew whose ids the database has given to other messages, without the rows of these ids."""
        staged: list[StagedFile] = []
        for day in self.compared:
            for file in writing.lake.files(day.table, [day.day]) if day.conflicting else ():
                if (ids := day.conflicting.get(file.path)) is not None:
                    folder = writing.stage(file.table, file.partition).parent
                    staged += map(writing.staged, rewrite(writing.lake.path, [file], folder, others(ids)))
        return staged

    def losses(self) -> Iterator[str]:
        """Yield a text for each day of which rows were in lost or damaged files, and in the database no more."""
        for day in self.compared:
            gone = day.counted - day.kept - len(day.lacking)
            if gone > 0 and (day.missing or day.unreadable):
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
    return Repair(compared)


def others(ids: pa.Array) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Return a function that returns a mask of the rows of a batch that do not have these ids."""
    return lambda batch: pc.invert(pc.is_in(batch.column("id"), value_set=ids))
