"""Plan an export: the ranges to read, decided at one moment."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import psycopg

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export import channels, dead_letters
from django_pgqueue.spark.export.archive import Closing, Partition, find_partitions, has_rows
from django_pgqueue.spark.export.horizon import Horizon, read_horizon
from django_pgqueue.spark.export.options import RANGE_BYTES
from django_pgqueue.spark.export.task import ExportTask

RANGES_PER_TASK = 8  # at most: the size of a file
TASKS_PER_CORE = 3  # at least, where there are as many ranges, so that the cores end at about the same time

COLUMNS = """
SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute AS a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The plan of one export.

    ``tasks`` read the new rows below the horizon, and all rows of the days ``rewritten``. ``closing``: the closed days
    after the export.
    """

    horizon: Horizon
    tasks: list[ExportTask]
    partitions: list[Partition]
    closing: Closing
    rewritten: list[date]
    channel_query: str
    channel_digest: str

    @property
    def open_days(self) -> list[str]:
        """Return the days that may still get rows."""
        before = self.closing.before
        return [p.day.isoformat() for p in self.partitions if p.day and p.day >= before and p.blocks]


def make_plan(
    connection: psycopg.Connection[Any],
    state: dict[str, Any],
    *,
    without: tuple[str, ...] = (),
    rewrite: Collection[date] = (),
    lacking: Iterable[str] = (),
    range_bytes: int = RANGE_BYTES,
) -> ExportPlan:
    """Plan an export. Raises PipelineError when a table is missing or may not be read.

    ``rewrite``: days of the archive that are read as a whole. ``lacking``: conditions for older dead letters to read.
    """
    selects = {table: _select(connection, table, without) for table in schema.SOURCES}
    since = state.get("exported_xid", 0)
    closing = Closing.from_state(state)
    # The horizon is read first: the rows below it are in the blocks that the partitions have afterwards.
    horizon = read_horizon(connection)
    partitions = find_partitions(connection)
    tasks = []
    closed = {}
    after = closing.advance(horizon)
    for partition in partitions:
        start = 0 if partition.day in rewrite else first_xid(connection, partition, closing, since)
        if start is not None and start < horizon.xid:
            query = f"{selects['archive']} FROM {partition.relation}"
            rows = f"xid >= '{start}'::xid8 AND xid < '{horizon.xid}'::xid8"
            conditions = [f"{rows} AND {blocks}" for blocks in partition.ranges(range_bytes)]
            size = partition.bytes // max(1, len(conditions))
            if partition.day and partition.day.isoformat() in state.get("open_days", []):
                # The lake has most of the rows; a partition without new rows needs no task.
                conditions = [condition for condition in conditions if has_rows(connection, partition, condition)]
            tasks += [ExportTask("archive", partition.relation, query, (each,), size) for each in conditions]
        if partition.day and partition.day < after.before:
            day = partition.day.isoformat()
            now = {"blocks": partition.blocks, "xid": horizon.xid}
            closed[day] = closing.closed.get(day, now) if start is None else now
    letters = [*lacking]
    if horizon.xid > since:
        letters += dead_letters.find_ranges(connection, since, horizon.xid, range_bytes)
    relation = schema.SOURCES["dead_letter"]
    query = f"{selects['dead_letter']} FROM {relation}"
    tasks += [ExportTask("dead_letter", relation, query, (each,), range_bytes) for each in letters]
    digest = channels.digest(connection)
    query = f"{selects['channel']} FROM {schema.SOURCES['channel']}"
    return ExportPlan(horizon, group(tasks), partitions, replace(after, closed=closed), list(rewrite), query, digest)


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
        if last and last.query == task.query and len(last.ranges) < size:
            grouped[-1] = replace(last, ranges=last.ranges + task.ranges, bytes=last.bytes + task.bytes)
        else:
            grouped.append(task)
    return grouped


def _select(connection: psycopg.Connection[Any], table: str, without: tuple[str, ...]) -> str:
    relation = schema.SOURCES[table]
    existing = dict(connection.execute(COLUMNS, [relation]).fetchall())
    if not existing or (table in schema.DAYS and "xid" not in existing):
        raise PipelineError(
            f"The database has no table {relation} that can be exported: migrate it, or look at the source and its "
            "search_path."
        )
    return f"SELECT {schema.select_list(table, existing, without)}"
