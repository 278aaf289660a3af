"""What a lake holds, as its folders and its newest commit tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.commit import day_of

TABLES = ("archive", "dead_letter", "channel", "metrics", "forecast")


@dataclass(frozen=True, slots=True)
class Held:
    """``rows``: None, where commits do not count them."""

    table: str
    days: int
    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Holdings:
    """``exported_xid``: all transactions before it are in the lake; None: nothing was exported."""

    name: str = ""
    committed_at: datetime | None = None
    exported_xid: int | None = None
    tables: Sequence[Held] = ()
    kinds: Mapping[str, datetime] = field(default_factory=dict)


def holdings(lake: Lake) -> Holdings:
    head = lake.head
    return Holdings(
        name=lake.description.name,
        committed_at=_time(head.at),
        exported_xid=head.state.get("exported_xid"),
        tables=[_held(lake, table, head.state.get("rows", {}).get(table)) for table in TABLES],
        kinds=_last_of_kinds(lake),
    )


def _held(lake: Lake, table: str, rows: dict[str, int] | None) -> Held:
    files = lake.files(table)
    days = {day_of(file.parent.relative_to(lake.path / table).as_posix()) for file in files}
    counted = None if rows is None else sum(rows.values())
    return Held(table, len(days), len(files), sum(file.stat().st_size for file in files), counted)


def _last_of_kinds(lake: Lake) -> dict[str, datetime]:
    """When each kind of commit was made last; looks at the newest commits only."""
    found: dict[str, datetime] = {}
    for number in reversed(lake.commit_numbers()[-50:]):
        commit = lake.commit(number)
        time = _time(commit.at)
        if time is not None:
            found.setdefault(commit.kind, time)
    return found


def _time(at: str) -> datetime | None:
    return datetime.fromisoformat(at) if at else None
