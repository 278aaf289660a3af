"""Read the data of the report, a lake's metrics, with pyarrow and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark.lake.files import day_of
from django_pgqueue.spark.lake.rows import read_table

# Each message is counted once in each level: whole queues, whole channels, handlers.


def queue_rows(rows: pa.Table) -> pa.Table:
    """Return the rows of whole queues, without those of channels and handlers."""
    return rows.filter(pc.equal(rows["level"], "queue"))


def channel_rows(rows: pa.Table) -> pa.Table:
    """Return the rows of whole channels, without those of their handlers."""
    return rows.filter(pc.equal(rows["level"], "channel"))


def handler_rows(rows: pa.Table) -> pa.Table:
    """Return the rows that tell the handlers of a channel apart."""
    return rows.filter(pc.equal(rows["level"], "handler"))


@dataclass(frozen=True, slots=True)
class Choice:
    """The subject of a report. ``queues``: none means all; ``channel``: only this channel, of the one queue."""

    queues: Sequence[str] = ()
    channel: str | None = None

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the subject. Those of a channel become the rows of a queue with the channel's name."""
        if self.queues:
            rows = rows.filter(pc.is_in(rows["queue"], pa.array(self.queues, pa.string())))
        if self.channel is None:
            return rows
        its = rows.filter(pc.equal(rows["channel"], self.channel))
        its = _with(its, "queue", self.channel)
        if "level" not in its.column_names:
            return its
        return pa.concat_tables([_with(channel_rows(its), "level", "queue"), its])


def _with(rows: pa.Table, column: str, value: str) -> pa.Table:
    place = rows.schema.get_field_index(column)
    return rows.set_column(place, rows.schema.field(column), pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))


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
# All outcomes: what is neither of them waits or runs.
ENDS = ("completed", "popped", "purged", "dropped", "cancelled", "dead")
PERCENTILES = tuple(f"{what}_{part}_seconds" for what in ("wait", "run", "total") for part in ("p50", "p95", "p99"))
TIMES = (*PERCENTILES, "total_max_seconds")
SPENT = ("run_seconds", "retry_seconds")
REASONS = ("retries_by_reason", "dead_by_reason")
NAMES = ("level", "bucket_at", "queue", "channel", "handler")
COMPARED = [*NAMES, "capacity_share", "wait_p95_seconds"]
MOVED = ("enqueued", *ENDS)
EVERYTHING = Choice()
COLUMNS = [*NAMES, *COUNTS, *TIMES, *SPENT, "capacity_share", "sla_seconds", *REASONS]


@dataclass(frozen=True, slots=True)
class QueueHistory:
    """The metrics of a queue over time: a list for each column, as long as the report's times.

    A bucket without a row has 0, or None in columns of times. The column ``depth``: the messages at the end of a bucket
    that had been enqueued and were not settled; those that are not settled yet are not among them.
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


def read_report_data(
    files: Files, days: Sequence[date], choice: Choice = EVERYTHING, later: Sequence[date] = ()
) -> Data:
    """Read the data of the days, which are in order. ``later``: the days after them.

    Raises PipelineError when a file cannot be read.
    """
    by_day = read_days(files, days, choice)
    if not by_day.num_rows:
        return Data(days=list(days))
    hours = _rows(files("hour", days[-HOURS_COMPARED:]), COMPARED, choice, _not_handlers)
    grain = _grain(queue_rows(by_day)["bucket_at"].to_pylist(), queue_rows(hours)["bucket_at"].to_pylist())
    if grain == "minute" and _days(files("minute", days)) < _days(files("hour", days)):
        grain = "hour"  # the lake keeps metrics by minute of its newest days
    rows = by_day if grain == "day" else _rows(files(grain, days), COLUMNS, choice, _not_handlers)
    times = _regular(queue_rows(rows)["bucket_at"].to_pylist(), WIDTHS[grain])
    history = _histories(queue_rows(rows), times)
    ended_later = _rows(files("day", later), ["level", "queue", "channel", "enqueued", *ENDS], choice)
    add_depth(history, {row["queue"]: _ended(row) for row in sums(queue_rows(ended_later), ["queue"], MOVED)})
    order = sorted(history, key=lambda queue: (-history[queue].total("completed", "popped", "dead"), queue))
    compared = channel_rows(rows if grain == "minute" else hours).select(COMPARED)
    return Data(list(days), order, grain, times, history, by_day, channel_rows(rows), compared)


def read_days(files: Files, days: Sequence[date], choice: Choice = EVERYTHING) -> pa.Table:
    """Read the rows of all levels, one per day. Raises PipelineError when a file cannot be read."""
    return _rows(files("day", days), COLUMNS, choice)


def read_hours(files: Files, days: Sequence[date], choice: Choice = EVERYTHING) -> pa.Table:
    """Read the rows of all levels, one per hour. Raises PipelineError when a file cannot be read."""
    return _rows(files("hour", days), COLUMNS, choice)


def _rows(
    paths: Iterable[Path],
    columns: Sequence[str],
    choice: Choice = EVERYTHING,
    keep: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> pa.Table:
    return choice.of(read_table("metrics", paths, columns, keep))


def _not_handlers(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.not_equal(rows["level"], "handler"))


def _days(paths: Iterable[Path]) -> set[date]:
    return {day_of(path.parent.name) for path in paths}


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
            value = row.get(column)
            if column in REASONS:
                values[place] = dict(value or {})
            elif value is not None:
                values[place] = value
    return found


def _empty_history(length: int) -> QueueHistory:
    columns: dict[str, list[Any]] = {name: [0] * length for name in (*COUNTS, *SPENT, "depth")}
    columns |= {name: [None] * length for name in (*TIMES, "sla_seconds")}
    return QueueHistory(columns | {name: [{}] * length for name in REASONS})


def add_depth(history: dict[str, QueueHistory], later: dict[str, int]) -> None:
    """Add the depth of each queue at the end of each bucket, from the last bucket back to the first.

    ``later``: by queue, how many more messages were settled than enqueued after the last bucket. Those wait at its end.
    """
    for queue, its in history.items():
        waiting = later.get(queue, 0)
        depth = its.columns["depth"]
        for place in reversed(range(len(depth))):
            depth[place] = max(0, waiting)
            waiting += _ended({name: its[name][place] for name in MOVED})


def _ended(counts: dict[str, Any]) -> int:
    """Return how many more messages were settled than enqueued."""
    ended: int = sum(counts[name] for name in ENDS) - counts["enqueued"]
    return ended


# The sum of NULLs is 0, for a column that older files do not have.
ZERO = pc.ScalarAggregateOptions(min_count=0)


def sums(rows: pa.Table, keys: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Add the columns up, grouped by the keys. Counts and seconds spent may be added, percentiles may not."""
    grouped = rows.group_by(list(keys)).aggregate([(column, "sum", ZERO) for column in columns])
    renamed = grouped.rename_columns([name.removesuffix("_sum") for name in grouped.column_names])
    added: list[dict[str, Any]] = renamed.to_pylist()
    return added
