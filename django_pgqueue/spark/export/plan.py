"""Plan an export: the ranges to read, decided at one moment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType
from typing import Any

import psycopg

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export.archive import Closing, Partition, find_partitions
from django_pgqueue.spark.export.comparison import letters_of
from django_pgqueue.spark.export.horizon import Horizon, read_horizon
from django_pgqueue.spark.export.task import RANGE_BYTES, ExportTask
from django_pgqueue.spark.source import columns_of, only

RANGES_PER_TASK = 8  # at most: the size of a file
IDS_PER_RANGE = 10_000  # of missing rows, which an index finds
TASKS_PER_CORE = 3  # at least, where there are as many ranges, so that the cores end at about the same time
# The statistics of the table are those of another time, if there are any. The size of a TOASTed value is in its row.
SIZE = """
SELECT coalesce(avg(n.bytes), 0)::bigint FROM (
    SELECT 300 + pg_column_size(d.payload) + coalesce(pg_column_size(d.body), 0)
        + coalesce(pg_column_size(d.errors), 0) + coalesce(pg_column_size(d.state), 0) AS bytes
    FROM pgqueue_dead_letter AS d WHERE d.xid >= %s::text::xid8 AND d.xid < %s::text::xid8
    ORDER BY d.xid, d.id LIMIT 1000) AS n
"""
BOUNDARY = """
SELECT d.xid::text::bigint, d.id FROM pgqueue_dead_letter AS d
WHERE (d.xid, d.id) > (%s::text::xid8, %s) AND d.xid < %s::text::xid8
ORDER BY d.xid, d.id OFFSET %s LIMIT 1
"""
IS_LEFT = """
SELECT EXISTS (
    SELECT FROM pgqueue_dead_letter AS d WHERE (d.xid, d.id) > (%s::text::xid8, %s) AND d.xid < %s::text::xid8)
"""
FEWEST_ROWS, MOST_ROWS = 100, 50_000  # rows of a range
# It changes when any channel changes.
DIGEST = "SELECT count(*) || ':' || coalesce(sum(hashtextextended(c::text, 0)), 0) FROM pgqueue_channel AS c"


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The plan of one export.

    ``tasks`` read the new rows below the horizon, and older ones that are missing. ``closing``: the closed days after
    the export.
    """

    horizon: Horizon
    tasks: list[ExportTask]
    partitions: list[Partition]
    closing: Closing
    channel_query: str
    channel_digest: str

    @property
    def open_days(self) -> dict[str, int]:
        """Return the days that may still get rows, and how many blocks of each this export reads."""
        before = self.closing.before
        return {p.day.isoformat(): p.blocks for p in self.partitions if p.day and p.day >= before and p.blocks}


def make_plan(
    connection: psycopg.Connection[Any],
    state: dict[str, Any],
    since: Mapping[str, int],
    *,
    without: tuple[str, ...] = (),
    missing: Mapping[tuple[str, date], Sequence[int] | None] = MappingProxyType({}),
    range_bytes: int = RANGE_BYTES,
) -> ExportPlan:
    """Plan an export. Raises PipelineError when a table is missing or may not be read.

    ``state``: what the last export has noted; ``since``: by table, the horizon up to which the lake has all rows.
    ``missing``: by table and day, the ids of older rows to read, in order; None: all rows that an earlier export should
    have brought.
    """
    lacks = {day for table, day in missing if table == "archive"}
    existing = {table: _columns(connection, table) for table in schema.SOURCES}

    def task(table: str, relation: str, condition: str, size: int = range_bytes) -> ExportTask:
        query = schema.select(schema.TABLES[table], existing[table], relation, without)
        return ExportTask(table, relation, (f"{query} WHERE {condition}",), size)

    archived, buried = since.get("archive", 0), since.get("dead_letter", 0)
    closing = Closing.from_state(state)
    # The horizon is read first: the rows below it are in the blocks that the partitions have afterwards.
    horizon = read_horizon(connection)
    partitions = find_partitions(connection)
    tasks = []
    closed = {}
    after = closing.advance(horizon)
    for partition in partitions:
        # The rows of a repaired day below the last horizon are read by the repair, also if it was closed before that.
        repaired = partition.day in lacks
        start = archived if repaired else first_xid(connection, partition, closing, archived)
        if partition.day and repaired:
            ids = missing["archive", partition.day]
            old = [*missing_rows(archived, ids, partition.ranges(range_bytes))]
            tasks += [task("archive", partition.relation, each) for each in old]
        if start is not None and start < horizon.xid:
            rows = f"xid >= '{start}'::xid8 AND xid < '{horizon.xid}'::xid8"
            seen = state.get("open_days", {}).get(partition.day.isoformat(), 0) if partition.day else 0
            ranges = partition.new_ranges(connection, rows, range_bytes, seen)
            tasks += [task("archive", partition.relation, each, size) for each, size in ranges]
        if partition.day and partition.day < after.before:
            day = partition.day.isoformat()
            now = {"blocks": partition.blocks, "xid": horizon.xid}
            closed[day] = closing.closed.get(day, now) if start is None else now
    letters = [
        condition
        for (table, day), ids in missing.items()
        if table == "dead_letter"
        for condition in missing_rows(buried, ids, [letters_of(day)])
    ]
    if horizon.xid > buried:
        letters += letter_ranges(connection, buried, horizon.xid, range_bytes)
    tasks += [task("dead_letter", schema.SOURCES["dead_letter"], each) for each in letters]
    # Read before the snapshot, so that a change in between shows in the next run.
    [digest] = only(connection.execute(DIGEST))
    query = schema.select(schema.TABLES["channel"], existing["channel"], schema.SOURCES["channel"], without)
    return ExportPlan(horizon, group(tasks), partitions, replace(after, closed=closed), query, digest)


def letter_ranges(connection: psycopg.Connection[Any], xid: int, horizon: int, range_bytes: int) -> Iterator[str]:
    """Yield conditions for the dead letters of transactions from ``xid`` up to the horizon, in ranges of (xid, id).

    Their rows move when they are redriven, so ctid is of no use.

    ``range_bytes``: the approximate size of a range in bytes, by the size of the first 1,000 letters.
    """
    [size] = only(connection.execute(SIZE, [xid, horizon]))
    rows = min(MOST_ROWS, max(FEWEST_ROWS, range_bytes // max(size, 1)))
    # This id is below all ids, so that all letters of the first transaction are read.
    last = (xid, -(2**63))
    while True:
        found = connection.execute(BOUNDARY, [*last, horizon, rows - 1]).fetchone()
        if found is None:
            if only(connection.execute(IS_LEFT, [*last, horizon]))[0]:
                yield f"(xid, id) > ('{last[0]}'::xid8, {last[1]}) AND xid < '{horizon}'::xid8"
            return
        yield f"(xid, id) > ('{last[0]}'::xid8, {last[1]}) AND (xid, id) <= ('{found[0]}'::xid8, {found[1]})"
        last = found


def missing_rows(since: int, ids: Sequence[int] | None, ranges: Iterable[str]) -> Iterator[str]:
    """Yield conditions for rows below a horizon. ``ids``: their ids, in order; None: all rows of the ranges."""
    below = f"xid < '{since}'::xid8"
    if ids is None:
        yield from (f"{below} AND {each}" for each in ranges)
        return
    for first in range(0, len(ids), IDS_PER_RANGE):
        some = ids[first : first + IDS_PER_RANGE]
        listed = ",".join(map(str, some))
        yield f"{below} AND id >= {some[0]} AND id <= {some[-1]} AND id = ANY ('{{{listed}}}'::bigint[])"


def first_xid(connection: psycopg.Connection[Any], partition: Partition, closing: Closing, since: int) -> int | None:
    """Return the transaction from which on a partition is to be read.

    None: the partition is closed and did not grow.
    """
    read_up_to = closing.read_up_to(partition)
    if read_up_to is None or partition.day is None:
        return since
    return read_up_to if partition.grew(connection, closing.closed[partition.day.isoformat()]) else None


def group(tasks: list[ExportTask]) -> list[ExportTask]:
    """Put neighbouring ranges of a table into one task, which writes one file a day."""
    size = min(RANGES_PER_TASK, max(1, len(tasks) // (TASKS_PER_CORE * (os.cpu_count() or 1))))
    grouped: list[ExportTask] = []
    for task in tasks:
        last = grouped[-1] if grouped else None
        if last and last.relation == task.relation and len(last.statements) < size:
            grouped[-1] = replace(last, statements=last.statements + task.statements, bytes=last.bytes + task.bytes)
        else:
            grouped.append(task)
    return grouped


def _columns(connection: psycopg.Connection[Any], table: str) -> dict[str, str]:
    relation = schema.SOURCES[table]
    existing = columns_of(connection, relation)
    if not existing or (table in schema.DAYS and "xid" not in existing):
        raise PipelineError(
            f"The database has no table {relation} that can be exported: migrate it, or look at the source and its "
            "search_path."
        )
    return existing
