"""Compare days of the lake with the database: do both have the same rows, or only as many?

Numbers of rows do not suffice. After a failover the new server gives ids and transactions anew, and retention may have
deleted as many rows of a day as the lake has lost. So both sides compute the number of rows of a day, the sum of their
ids and the sum of their times, to the microsecond: one pass over two columns. Only where these differ, the rows are
compared one by one, by id and time. Other columns are not compared: the SHA-256 of the files covers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from django_pgqueue.spark import schema
from django_pgqueue.spark.export.archive import find_partitions
from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.source import Source, only

SUMS_BYTES = 512 * 1024 * 1024  # what one statement adds up, a few seconds
# As in numpy, a sum is one modulo 2 ** 64: the times of a large day would not fit.
MODULUS = 2**64
# The names of the tables in messages.
NAMES = {"archive": "archive", "dead_letter": "dead letters"}
KEYS = pa.schema([("id", schema.BIG), ("at", schema.TIME)])
LETTER_DAYS = """
SELECT DISTINCT ({dead_at} AT TIME ZONE 'UTC')::date AS day FROM pgqueue_dead_letter
WHERE xid < %s::text::xid8 AND dead_at IS NOT NULL ORDER BY day
"""


# The number of rows, the sum of their ids, and the sum of their microseconds since the start of their day.
Sums = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class DatabaseDay:
    """The rows of a day in the database. ``relation``: where they are; ``ranges``: conditions that divide them."""

    table: str
    day: date
    relation: str
    ranges: tuple[str, ...]

    @property
    def time(self) -> str:
        """Return SQL for the time of a row, as the lake has it."""
        return time_of(self.table)

    def sums(self, connection: psycopg.Connection[Any], exported: int) -> Sums:
        """Return the sums of the rows below a horizon, added up in short statements."""
        sql = (
            f"SELECT count(*), coalesce(sum(id), 0), coalesce(extract(epoch FROM sum(({self.time}) - "  # noqa: S608
            f"timestamptz '{self.day} 00:00+00')), 0) FROM {self.relation} WHERE xid < '{exported}'::xid8 AND "
        )
        found = [only(connection.execute(sql + condition)) for condition in self.ranges]
        return added((rows, int(ids), int(seconds * 1_000_000)) for rows, ids, seconds in found)

    def keys(self, source: Source, exported: int) -> pa.Table:
        """Return id and time of each row below a horizon."""
        sql = f"SELECT id, {self.time} AS at FROM {self.relation} WHERE xid < '{exported}'::xid8 AND "  # noqa: S608
        return pa.Table.from_batches(source.read([sql + condition for condition in self.ranges], KEYS), KEYS)


@dataclass(frozen=True, slots=True)
class DayComparison:
    """A day as the lake and the database have it.

    ``here``, ``there``: the rows of the lake's readable files and of the database. ``lacking``: the ids of the rows of
    the database that the lake does not have. ``foreign``: how many rows the lake has that the database does not have.
    ``conflicting``: by path in the lake, the ids of those rows that are other messages of the database: the server has
    given their ids anew. ``doubled``: how many rows the lake has more than once. ``unreadable``, ``missing``: the files
    that cannot be read, or are not there. ``counted``: its rows by the log of the table.
    """

    table: str
    day: date
    here: int
    there: int
    lacking: pa.Array = field(default_factory=lambda: pa.array([], schema.BIG))
    foreign: int = 0
    doubled: int = 0
    conflicting: Mapping[str, pa.Array] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    counted: int = 0

    @property
    def replaced(self) -> set[str]:
        """Return the files that go: those that cannot be read, and those with rows of other messages."""
        return {*self.unreadable, *self.conflicting}

    @property
    def kept(self) -> int:
        """Return how many rows of the lake stay when it is repaired."""
        return self.here - sum(len(ids) for ids in self.conflicting.values())


def compare_days(
    source: Source, connection: psycopg.Connection[Any], lake: Lake, since: date = date.min
) -> Iterator[DayComparison]:
    """Yield each day that the database has, archive first, with what differs below the horizon of the last export.

    ``since``: older days are left out.
    """
    exported = lake.horizons
    files: dict[tuple[str, date], list[LakeFile]] = {}
    for file in (file for table in exported for file in lake.files(table)):
        files.setdefault((file.table, file.day), []).append(file)
    for day in database_days(connection, exported["dead_letter"]):
        if day.day >= since:
            there, its = day.sums(connection, exported[day.table]), files.get((day.table, day.day), [])
            keys, missing, unreadable = read_keys(lake, its)
            here = added(sums_of(rows, day.day) for rows in keys.values())
            if here == there:
                found = DayComparison(day.table, day.day, here[0], there[0])
            else:
                found = differences(day, keys, day.keys(source, exported[day.table]))
            counted = sum(file.rows for file in its)
            yield replace(found, counted=counted, missing=tuple(missing), unreadable=tuple(unreadable))


def database_days(connection: psycopg.Connection[Any], exported: int) -> Iterator[DatabaseDay]:
    """Yield the days of the archive and of the dead letters in the database, each in order."""
    for partition in find_partitions(connection):
        if partition.day is not None:
            yield DatabaseDay("archive", partition.day, partition.relation, tuple(partition.ranges(SUMS_BYTES)))
    days = LETTER_DAYS.format(dead_at=time_of("dead_letter"))
    for [day] in connection.execute(days, [exported]).fetchall():
        yield DatabaseDay("dead_letter", day, schema.SOURCES["dead_letter"], (letters_of(day),))


def pruned_days(connection: psycopg.Connection[Any]) -> set[date]:
    """Return the days of the archive from which the retention of a queue has deleted rows, as far as the role may see
    them.
    """
    try:
        return {day for [day] in connection.execute("SELECT DISTINCT p.day FROM pgqueue_pruned AS p")}
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        return set()


def time_of(table: str) -> str:
    """Return SQL for the time of a row of the archive or the dead letters, as the lake has it."""
    return schema.Column(schema.DAYS[table], schema.TIME).expression("timestamptz")


def letters_of(day: date) -> str:
    """Return the condition for the dead letters of a day (UTC) of the lake; its first and last day have all others."""
    first = "-infinity" if day == schema.FIRST_DAY else f"{day} 00:00+00"
    before = "infinity" if day == schema.LAST_DAY else f"{day + timedelta(days=1)} 00:00+00"
    end = "<=" if day == schema.LAST_DAY else "<"
    return f"dead_at >= '{first}' AND dead_at {end} '{before}'"


def differences(day: DatabaseDay, here: Mapping[str, pa.Table], there: pa.Table) -> DayComparison:
    """Compare a day row by row. ``here``: the keys by file of the lake; ``there``: those of the database."""
    all_here = pa.concat_tables([KEYS.empty_table(), *here.values()])
    unique = all_here.group_by(KEYS.names).aggregate([])
    foreign = {path: keys.join(there, KEYS.names, join_type="left anti") for path, keys in here.items()}
    conflicting = {path: _among(keys["id"], there["id"]) for path, keys in foreign.items()}
    return DayComparison(
        day.table,
        day.day,
        all_here.num_rows,
        there.num_rows,
        there.join(unique, KEYS.names, join_type="left anti")["id"].combine_chunks(),
        sum(keys.num_rows for keys in foreign.values()),
        all_here.num_rows - unique.num_rows,
        {path: ids for path, ids in conflicting.items() if len(ids)},
    )


def _among(ids: pa.ChunkedArray, known: pa.ChunkedArray) -> pa.Array:
    return ids.filter(pc.is_in(ids, value_set=known.combine_chunks())).combine_chunks()


def read_keys(lake: Lake, files: Iterable[LakeFile]) -> tuple[dict[str, pa.Table], list[str], list[str]]:
    """Return id and time of the rows of files by file, and the files that are missing or cannot be read."""
    keys: dict[str, pa.Table] = {}
    missing: list[str] = []
    unreadable: list[str] = []
    for file in files:
        try:
            rows = pq.read_table(lake.path / file.path, columns=["id", schema.DAYS[file.table]], partitioning=None)
            keys[file.path] = rows.rename_columns(KEYS.names).cast(KEYS)
        except FileNotFoundError:
            missing.append(file.path)
        except (OSError, pa.ArrowException):
            unreadable.append(file.path)
    return keys, missing, unreadable


def sums_of(keys: pa.Table, day: date) -> Sums:
    """Return the sums of rows of a day."""
    start = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
    micros = pc.subtract(keys["at"].cast(pa.int64()), start)
    return keys.num_rows, *(int(values.to_numpy().sum(dtype="int64")) for values in (keys["id"], micros))


def added(sums: Iterable[Sums]) -> Sums:
    """Add sums up, modulo 2 ** 64."""
    rows, ids, micros = (sum(column) % MODULUS for column in zip((0, 0, 0), *sums, strict=True))
    return rows, ids, micros
