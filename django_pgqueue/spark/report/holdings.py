"""Read from a lake's folders and its newest commit which data the lake holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.lake.commit import day_of

TABLES = ("archive", "dead_letter", "channel", "metrics", "forecast")
LOOKED_AT_COMMITS = 100


@dataclass(frozen=True, slots=True)
class TableHoldings:
    """The data of one table. ``rows``: None if commits do not count them."""

    table: str
    days: int
    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Holdings:
    """The data of a lake.

    ``exported_xid``: all transactions before it are in the lake; None: nothing was exported. ``rollup_due``: there are
    exported rows that the metrics do not count yet.
    """

    name: str = ""
    exported_at: datetime | None = None
    exported_xid: int | None = None
    rolled_up_at: datetime | None = None
    rollup_due: bool = False
    tables: Sequence[TableHoldings] = ()


def holdings(lake: ParquetLake) -> Holdings:
    """Return what the lake holds, from its newest commit and its folders."""
    state, numbers = lake.state, lake.commit_numbers()
    unseen = (number for number in numbers if number > state.get("rolled_up", 0))
    return Holdings(
        name=lake.description.name,
        exported_at=_time(state.get("exported_at")),
        exported_xid=state.get("exported_xid"),
        rolled_up_at=_last_rollup(lake, numbers),
        rollup_due=any(lake.commit(number).kind == "export" for number in unseen),
        tables=[_held(lake, table, state.get("rows", {}).get(table)) for table in TABLES],
    )


def _held(lake: ParquetLake, table: str, rows: dict[str, int] | None) -> TableHoldings:
    files = lake.files(table)
    days = {day_of(file.parent.relative_to(lake.path / table).as_posix()) for file in files}
    counted = None if rows is None else sum(rows.values())
    return TableHoldings(table, len(days), len(files), sum(file.stat().st_size for file in files), counted)


def _last_rollup(lake: ParquetLake, numbers: Sequence[int]) -> datetime | None:
    """Return the time of the last rollup among the newest commits; a lake may have many thousands."""
    commits = (lake.commit(number) for number in reversed(numbers[-LOOKED_AT_COMMITS:]))
    return next((_time(commit.at) for commit in commits if commit.kind == "rollup"), None)


def _time(at: str | None) -> datetime | None:
    return datetime.fromisoformat(at) if at else None
