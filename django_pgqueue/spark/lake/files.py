"""Files of the lake: their names hold the SHA-256 of their content, so that no list of digests can be lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

# The app id of the transactions of exports: its version is the horizon up to which a table has all rows.
HORIZON = "pgqueue"
# The key of what our commits say about themselves.
METADATA = "pgqueue"
# The columns whose ranges are in the log.
RANGED = {
    "archive": ("id", "created_at"),
    "dead_letter": ("id", "created_at"),
    "channel": ("id",),
    "metrics": ("bucket_at",),
}
NEWEST = 20  # commits, among which the last one with a state almost always is
ONE_DAY = timedelta(days=1)


def day_ranges(days: Iterable[date]) -> Iterator[str]:
    """Yield each unbroken row of days, which are in order, as ``2026-11-21`` or ``2026-11-21 to 2026-11-25``."""
    row: list[date] = []
    for day in days:
        if row and day - row[-1] > ONE_DAY:
            yield _text(row)
            row = []
        row = [row[0] if row else day, day]
    if row:
        yield _text(row)


def _text(row: list[date]) -> str:
    return f"{row[0]}" if row[0] == row[-1] else f"{row[0]} to {row[-1]}"


# The time at which it was committed, so that names are in that order, and the digest.
NAME = re.compile(r"[0-9a-f]{16}-([0-9a-f]{64})\.parquet")
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished Parquet file in a staging folder, to be committed to a partition such as ``day=2026-11-21``."""

    table: str
    partition: str
    path: Path
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of a table. ``created``: the first and the last time of created_at of its rows, if it has such times."""

    table: str
    partition: str
    name: str
    rows: int
    bytes: int
    created: tuple[datetime, datetime] | None = field(default=None, compare=False)

    @property
    def path(self) -> str:
        """Return the path relative to the lake."""
        return f"{self.table}/{self.partition}/{self.name}"

    @property
    def day(self) -> date:
        return day_of(self.partition)

    @property
    def sha256(self) -> str:
        """Return the digest of the content that was committed; "" if another program wrote the file."""
        found = NAME.fullmatch(self.name)
        return found[1] if found else ""


# What Delta's ``get_add_actions(flatten=True)`` says of a file; some tables have no created_at.
OF_FILE = ("path", "size_bytes", "num_records", "min.created_at", "max.created_at")


def files_of(delta: DeltaTable, table: str) -> list[LakeFile]:
    """Return the files of an open table, in order."""
    actions = delta.get_add_actions(flatten=True)
    absent = [None] * actions.num_rows
    # pyarrow would import pandas for the times.
    columns = (actions.column(name).to_pylist() if name in actions.column_names else absent for name in OF_FILE)
    found = []
    for path, size, rows, first, last in zip(*columns, strict=True):
        partition, _, name = path.rpartition("/")
        found.append(LakeFile(table, partition, name, rows or 0, size, (first, last) if first and last else None))
    return sorted(found, key=lambda file: file.path)


def changed_partitions(actions: Iterable[dict[str, Any]]) -> set[str]:
    """Return the partitions in which actions of the log add or remove rows."""
    changes = (action[kind] for action in actions for kind in ("add", "remove") if kind in action)
    return {change["path"].rpartition("/")[0] for change in changes if change["dataChange"]}


def state_of(delta: DeltaTable) -> dict[str, Any]:
    """Return the state in the newest commit that has one; {} if the log has none (any more)."""
    for limit in (NEWEST, None):
        for commit in delta.history(limit):
            if "state" in (noted := json.loads(commit.get(METADATA, "{}"))):
                return dict(noted["state"])
    return {}


def day_of(partition: str) -> date:
    """Return the day of a partition such as ``day=2026-11-21`` or ``grain=hour/day=2026-11-21``."""
    return date.fromisoformat(partition.rpartition("day=")[2])


def values_of(partition: str) -> dict[str, str]:
    """Return the columns of a partition with their values."""
    return dict(part.split("=", 1) for part in partition.split("/"))


def statistics(path: Path, table: str) -> str:
    """Return the statistics of a file as the log has them: its rows, and the ranges of some columns. Names and payloads
    are never among these: an erased one must not stay in the log.
    """
    metadata = pq.read_metadata(path)
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for name in RANGED[table]:
        if name not in metadata.schema.names:
            continue
        place = metadata.schema.names.index(name)
        groups = [metadata.row_group(n).column(place).statistics for n in range(metadata.num_row_groups)]
        known = [group for group in groups if group is not None and group.has_min_max]
        if known and len(known) == len(groups):
            least[name] = _value(min(group.min for group in known))
            most[name] = _value(max(group.max for group in known), up=True)
    return json.dumps({"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": {}})


def _value(value: Any, *, up: bool = False) -> Any:
    """Return a value in JSON's types. Delta's times have milliseconds: the last one is rounded up."""
    if not isinstance(value, datetime):
        return value
    whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if up and whole < value:
        whole += MILLISECOND
    return f"{whole.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
