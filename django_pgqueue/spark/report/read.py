"""Read the data of the report, a lake's metrics and forecast, with pyarrow and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark.lake.rows import read_table
from django_pgqueue.spark.schema import arrow_schema

# Returns the files of a grain, of these days: `files("hour", days)`.
Files = Callable[[str, Sequence[date]], list[Path]]

WIDTHS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}
# The longest periods with buckets of minutes and of hours, and the fewest buckets, so that the axis has labels.
MINUTES_UP_TO = timedelta(hours=6)
HOURS_UP_TO = timedelta(days=15)
FEWEST_BUCKETS = 12
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
# The most days for which channels are compared with each other by hour.
HOURS_COMPARED = 31

COUNTS = (
    "enqueued", "completed", "popped", "purged", "dropped", "cancelled", "dead", "attempts", "retries", "sla_breaches",
)  # fmt: skip
TIMES = tuple(f"{what}_{part}_seconds" for what in ("wait", "run", "total") for part in ("p50", "p95", "p99"))
SPENT = ("run_seconds", "retry_seconds")
REASONS = ("retries_by_reason", "dead_by_reason")
NAMES = ("bucket_at", "queue", "channel", "handler")
COMPARED = [*NAMES, "capacity_share", "wait_p95_seconds"]
COLUMNS = [*NAMES, *COUNTS, *TIMES, *SPENT, "capacity_share", "sla_seconds", *REASONS]


@dataclass(frozen=True, slots=True)
class QueueHistory:
    """The metrics of a queue over time: a list for each column, as long as the report's times.

    A bucket without a row has 0, or None in columns of times.
    """

    columns: dict[str, list[Any]]

    def __getitem__(self, column: str) -> list[Any]:
        return self.columns[column]

    def total(self, *columns: str) -> float:
        """Return the sum of the columns over the whole period."""
        return sum(sum(self.columns[column]) for column in columns)


@dataclass(frozen=True, slots=True)
class Data:
    """The data of the report.

    `queues`: busiest first. `by_day`: rows of all levels, one per day; `tenants`: rows of whole channels, one per
    bucket; `compared`: rows of whole channels, one per hour, or per minute when the buckets are minutes.
    """

    days: list[date] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    grain: str = "hour"
    times: list[datetime] = field(default_factory=list)
    history: dict[str, QueueHistory] = field(default_factory=dict)
    by_day: pa.Table | None = None
    tenants: pa.Table | None = None
    compared: pa.Table | None = None

    @property
    def width(self) -> timedelta:
        return WIDTHS[self.grain]


def read_report_data(files: Files, days: Sequence[date], queues: Sequence[str] = ()) -> Data:
    """Read the data of the days, which are in order, for all queues or for some.

    Raises PipelineError when a file cannot be read.
    """
    by_day = _rows("metrics", files("day", days), COLUMNS, queues)
    if not by_day.num_rows:
        return Data(days=list(days))
    hours = _rows("metrics", files("hour", days[-HOURS_COMPARED:]), COMPARED, queues, _not_handlers)
    grain = _grain(queue_rows(by_day)["bucket_at"].to_pylist(), queue_rows(hours)["bucket_at"].to_pylist())
    rows = by_day if grain == "day" else _rows("metrics", files(grain, days), COLUMNS, queues, _not_handlers)
    times = _regular(queue_rows(rows)["bucket_at"].to_pylist(), WIDTHS[grain])
    history = _histories(queue_rows(rows), times)
    order = sorted(history, key=lambda queue: (-history[queue].total("completed", "popped", "dead"), queue))
    compared = channel_rows(rows if grain == "minute" else hours).select(COMPARED)
    return Data(list(days), order, grain, times, history, by_day, channel_rows(rows), compared)


def read_forecast(paths: Iterable[Path]) -> pa.Table:
    """Read the forecast from its Parquet files."""
    return _rows("forecast", paths, arrow_schema("forecast").names)


def _rows(
    table: str,
    paths: Iterable[Path],
    columns: Sequence[str],
    queues: Sequence[str] = (),
    keep: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> pa.Table:
    rows = read_table(table, paths, columns, keep)
    return rows.filter(pc.is_in(rows["queue"], pa.array(queues, pa.string()))) if queues else rows


# Each message is counted once in each level: whole queues, whole channels, handlers.


def queue_rows(rows: pa.Table) -> pa.Table:
    """Return the rows of whole queues, without those of single channels and handlers."""
    return rows.filter(pc.and_(pc.is_null(rows["channel"]), pc.is_null(rows["handler"])))


def channel_rows(rows: pa.Table) -> pa.Table:
    """Return the rows of whole channels, without those of single handlers."""
    return rows.filter(pc.and_(pc.is_valid(rows["channel"]), pc.is_null(rows["handler"])))


def handler_rows(rows: pa.Table) -> pa.Table:
    """Return the rows of single handlers."""
    return rows.filter(pc.is_valid(rows["handler"]))


def _not_handlers(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.is_null(rows["handler"]))


def _grain(days: list[datetime], hours: list[datetime]) -> str:
    """Return the grain that divides the period into enough buckets, and not too many."""
    if not hours or max(days) - min(days) > HOURS_UP_TO:
        return "day"
    return "minute" if max(hours) - min(hours) < MINUTES_UP_TO else "hour"


def _regular(found: list[datetime], width: timedelta) -> list[datetime]:
    """Return all buckets from the first to the last, including empty ones."""
    step = width.total_seconds()
    first, last = (int(time.timestamp() // step) for time in (min(found), max(found)))
    first = min(first, max(last - FEWEST_BUCKETS + 1, int(EARLIEST.timestamp() // step)))
    return [datetime.fromtimestamp(number * step, UTC) for number in range(first, last + 1)]


def _histories(rows: pa.Table, times: list[datetime]) -> dict[str, QueueHistory]:
    places = {time: place for place, time in enumerate(times)}
    found: dict[str, QueueHistory] = {}
    for row in rows.to_pylist():
        history = found.get(row["queue"])
        if history is None:
            history = found[row["queue"]] = _empty_history(len(times))
        place = places[row["bucket_at"]]
        for column, values in history.columns.items():
            value = row[column]
            if column in REASONS:
                values[place] = dict(value or {})
            elif value is not None:
                values[place] = value
    return found


def _empty_history(length: int) -> QueueHistory:
    columns: dict[str, list[Any]] = {name: [0] * length for name in (*COUNTS, *SPENT)}
    columns |= {name: [None] * length for name in (*TIMES, "sla_seconds")}
    return QueueHistory(columns | {name: [{}] * length for name in REASONS})


# The sum of NULLs is 0, for a column that older files do not have.
ZERO = pc.ScalarAggregateOptions(min_count=0)


def sums(rows: pa.Table, keys: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Add the columns up, grouped by the keys. Counts and seconds spent may be added, percentiles may not."""
    grouped = rows.group_by(list(keys)).aggregate([(column, "sum", ZERO) for column in columns])
    renamed = grouped.rename_columns([name.removesuffix("_sum") for name in grouped.column_names])
    added: list[dict[str, Any]] = renamed.to_pylist()
    return added
