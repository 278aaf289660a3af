"""Find the parts of the archive to read: the blocks of its partitions, in ranges of a bounded size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, timedelta
from typing import Any

import psycopg

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export.horizon import Horizon
from django_pgqueue.spark.source import only

# A partition still gets rows after its day, from transactions that began to settle within the day.
GRACE = timedelta(hours=1)

PARTITIONS = """
SELECT c.oid::bigint, c.oid::regclass::text, c.relname, pg_relation_filenode(c.oid)::bigint,
    pg_relation_size(c.oid) / current_setting('block_size')::bigint, pg_table_size(c.oid),
    has_table_privilege(c.oid, 'SELECT')
FROM pg_partition_tree('pgqueue_archived_message') AS p
JOIN pg_class AS c ON c.oid = p.relid
WHERE c.relkind = 'r' AND pg_relation_filenode(c.oid) IS NOT NULL
ORDER BY c.relname
"""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as it was when the export was planned. ``day``: None when its name contains no day."""

    oid: int
    relation: str
    day: date | None
    filenode: int
    blocks: int
    bytes: int

    def grew(self, connection: psycopg.Connection[Any], known: Mapping[str, int]) -> bool:
        """Return whether a closed partition got rows after it was closed: in new blocks, or in its last one."""
        if self.blocks != known["blocks"] or self.blocks == 0:
            return self.blocks != known["blocks"]
        last = f"{in_blocks(self.blocks - 1, self.blocks)} AND xid >= '{known['xid']}'::xid8"
        return has_rows(connection, self, last)

    def ranges(self, range_bytes: int) -> Iterator[str]:
        """Yield conditions on ctid that divide the partition into ranges of about ``range_bytes`` bytes, TOAST
        included.

        The archive is only ever inserted into: rows below the horizon are in the blocks that it had then.
        """
        yield from (in_blocks(*span) for span in self._spans(range_bytes, 0, self.blocks))

    def new_ranges(
        self, connection: psycopg.Connection[Any], rows: str, range_bytes: int, seen: int
    ) -> Iterator[tuple[str, int]]:
        """Yield conditions for ranges that have rows which meet the condition ``rows``, with their sizes in bytes.

        ``seen``: how many blocks an earlier export has read. The rows of a late commit may be in any of these, so they
        are read once to find the first and the last block with new rows; a task reads what is between.
        """
        seen = min(seen, self.blocks)
        spans = [*self._spans(range_bytes, 0, seen)]
        found = [span for each in spans if (span := self._find_span(connection, rows, each))]
        # New rows in the last blocks and in new ones are neighbours: one range, one file.
        start = found.pop()[0] if found and found[-1][1] == seen else seen
        for first, stop in (*found, *self._spans(range_bytes, start, self.blocks)):
            yield f"{rows} AND {in_blocks(first, stop)}", self.bytes * (stop - first) // self.blocks

    def _spans(self, range_bytes: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
        step = max(1, self.blocks * range_bytes // max(1, self.bytes))
        yield from ((first, min(first + step, stop)) for first in range(start, stop, step))

    def _find_span(
        self, connection: psycopg.Connection[Any], rows: str, span: tuple[int, int]
    ) -> tuple[int, int] | None:
        """Return the smallest span of blocks that has all such rows of a span, or None if there are none.

        If the partition was dropped, it is the whole span: the task that reads it reports that.
        """
        sql = f"SELECT min(ctid)::text::point, max(ctid)::text::point FROM {self.relation} WHERE {rows} AND "  # noqa: S608
        sql = f"SELECT (n.first)[0]::bigint, (n.last)[0]::bigint + 1 FROM ({sql}{in_blocks(*span)}) AS n (first, last)"  # noqa: S608
        try:
            first, stop = only(connection.execute(sql))
        except psycopg.errors.UndefinedTable:
            return span
        return None if first is None else (first, stop)


@dataclass(frozen=True, slots=True)
class Closing:
    """Hold which days get no more rows: the closed days.

    Days before ``before`` are closed. Days before ``pending`` will be closed once the horizon has passed
    ``pending_xid``. ``closed``: for each closed day, the blocks of its partition and the horizon up to which it was
    read.
    """

    before: date = date.min
    pending: date | None = None
    pending_xid: int = 0
    closed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Closing:
        """Read the closed days from the state of a commit."""
        pending = state.get("pending_close")
        return cls(
            date.fromisoformat(state["closed_before"]) if state.get("closed_before") else date.min,
            date.fromisoformat(pending["before"]) if pending else None,
            pending["xid"] if pending else 0,
            state.get("closed", {}),
        )

    def advance(self, horizon: Horizon) -> Closing:
        """Return the state after a run with this horizon; ``closed`` is not changed."""
        before, pending, pending_xid = self.before, self.pending, self.pending_xid
        if pending is not None and horizon.xid >= pending_xid:
            before, pending, pending_xid = pending, None, 0
        over = (horizon.now.astimezone(UTC) - GRACE).date()
        if pending is None and over > before and horizon.next_xid is not None:
            pending, pending_xid = over, horizon.next_xid
        return replace(self, before=before, pending=pending, pending_xid=pending_xid)

    def read_up_to(self, partition: Partition) -> int | None:
        """Return the horizon up to which a closed partition was read; None: the partition is open."""
        known = self.closed.get(partition.day.isoformat()) if partition.day and partition.day < self.before else None
        return known["xid"] if known else None

    def as_state(self) -> dict[str, Any]:
        """Return the closed days as JSON for the state of a commit."""
        return {
            "closed_before": self.before.isoformat() if self.before > date.min else None,
            "pending_close": {"before": self.pending.isoformat(), "xid": self.pending_xid} if self.pending else None,
            "closed": {day: dict(known) for day, known in self.closed.items()},
        }


def find_partitions(connection: psycopg.Connection[Any]) -> list[Partition]:
    """Return the partitions of the archive. Raises PipelineError when the role may not read one of them.

    The right to read the parent does not suffice.
    """
    found = []
    for oid, relation, name, filenode, blocks, size, readable in connection.execute(PARTITIONS):
        if not readable:
            raise PipelineError(
                f"The role {connection.info.user} may not read {relation}: grant it pg_read_all_data, or run "
                f"manage.py pgqueue grant pipeline {connection.info.user}."
            )
        found.append(Partition(oid, relation, _day(name), filenode, blocks, size))
    return found


def in_blocks(first: int, stop: int) -> str:
    """Return the condition for the rows in the blocks from ``first`` up to, but without, ``stop``."""
    return f"ctid >= '({first},0)'::tid AND ctid < '({stop},0)'::tid"


def has_rows(connection: psycopg.Connection[Any], partition: Partition, condition: str) -> bool:
    """Return whether a row of the partition meets the condition; True also when the partition was dropped.

    The task that reads a dropped partition reports it.
    """
    try:
        sql = f"SELECT EXISTS (SELECT FROM {partition.relation} WHERE {condition})"  # noqa: S608
        is_there: bool = only(connection.execute(sql))[0]
    except psycopg.errors.UndefinedTable:
        return True
    return is_there


def _day(name: str) -> date | None:
    match = re.search(r"_(\d{4})(\d{2})(\d{2})$", name)
    try:
        return date(*map(int, match.groups())) if match else None
    except ValueError:
        return None


def check_unchanged(connection: psycopg.Connection[Any], partitions: list[Partition]) -> None:
    """Raise PipelineError when a partition was rewritten since: its rows have changed places.

    A partition may have been dropped.
    """
    now = dict(
        connection.execute(
            "SELECT o, pg_relation_filenode(o::oid)::bigint FROM unnest(%s::bigint[]) AS o",
            [[partition.oid for partition in partitions]],
        ).fetchall()
    )
    for partition in partitions:
        if now[partition.oid] not in (None, partition.filenode):
            raise PipelineError(
                f"{partition.relation} was rewritten (VACUUM FULL, CLUSTER) while it was read: run export again."
            )
