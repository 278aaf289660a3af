"""Cut a table into short reads. Each is a statement of its own, so that none pins the xmin horizon for long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, TypeVar

import psycopg

from django_pgqueue.spark.datasource.tables import Table
from django_pgqueue.spark.export.archive import find_partitions
from django_pgqueue.spark.source import only

# A range takes between some tenths of a second and a second, so a hundred thousand rows are work for several tasks.
ROWS = 50_000
RANGE_BYTES = 64_000_000

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Range:
    """A condition that a part of the table's rows meet. ``rows``: the partition to read, where there is one."""

    condition: str
    rows: str = ""


def by_block(connection: psycopg.Connection[Any], since: datetime | None, until: datetime | None) -> Iterator[Range]:
    """Return ranges of pages of the archive's partitions. The rows never move, so each is read once."""
    for partition in find_partitions(connection):
        if partition.day is None or not outside(partition.day, since, until):
            yield from (Range(condition, partition.relation) for condition in partition.ranges(RANGE_BYTES))


def outside(day: date, since: datetime | None, until: datetime | None) -> bool:
    """Return whether no row of this day (UTC) can lie between ``since`` and ``until``."""
    begin = datetime.combine(day, time.min, UTC)
    return (until is not None and begin >= until) or (since is not None and begin + timedelta(days=1) <= since)


def by_id(connection: psycopg.Connection[Any], table: Table) -> Iterator[Range]:
    """Return ranges of ids with about equally many rows.

    A row that is updated meanwhile keeps its id, so it is not read twice.
    """
    last = 0
    while True:
        rows = connection.execute(
            f"SELECT max(n.id) FROM (SELECT t.id FROM {table.name} AS t WHERE t.id > %s ORDER BY t.id LIMIT %s) AS n",  # noqa: S608
            [last, ROWS],
        )
        [upto] = only(rows)
        if upto is None:
            return
        yield Range(f"id > {last} AND id <= {upto}")
        last = upto


def distribute(parts: Sequence[Part], lists: int) -> list[list[Part]]:
    """Distribute the parts, in their order, over ``lists`` lists of about equal length. No list is empty."""
    lists = min(lists, len(parts))
    return [list(parts[len(parts) * place // lists : len(parts) * (place + 1) // lists]) for place in range(lists)]
