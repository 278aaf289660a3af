"""Read the data of the report, a lake's metrics, with pyarrow and without Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.files import ONE_DAY, LakeFile, day_ranges
from django_pgqueue.spark.lake.rows import read as read_file
from django_pgqueue.spark.schema import arrow_schema
from django_pgqueue.spark.transforms.rollup import find_touched

# Each message is counted once in each level. The columns that name the rows of a level.
KEYS = {"queue": ("queue",), "channel": ("queue", "channel"), "handler": ("queue", "handler")}
ENDS = ("completed", "popped", "purged", "dropped", "cancelled", "dead")
# The outcomes of messages that a worker or a client took.
SETTLED = ("completed", "popped", "dead")
ADDED = ("enqueued", *ENDS, "attempts", "retries", "run_seconds", "retry_seconds", "sla_breaches")
# Percentiles, of which a period has the longest.
LONGEST = ("wait_p50_seconds", "wait_p95_seconds", "wait_p99_seconds", "run_p95_seconds")
COLUMNS = ("level", "bucket_at", "queue", "channel", "handler", *ADDED, *LONGEST, "sla_seconds")
REASONS = ("retries_by_reason", "dead_by_reason")

WIDTHS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": ONE_DAY}
# The longest periods with buckets of minutes and of hours, and the fewest buckets, so that the axis has labels.
MINUTES_UP_TO = timedelta(hours=6)
HOURS_UP_TO = timedelta(days=15)
FEWEST_BUCKETS = 12
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
# The most ranges of days that an error names.
SHOWN_RANGES = 10
TRIES = 5  # at a lake that is changed while it is read
# The sum of NULLs is 0, for a column that older files do not have.
ZERO = pc.ScalarAggregateOptions(min_count=0)


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a report. ``queues``: none means all; ``channel``: only this channel, of the one queue."""

    queues: tuple[str, ...] = ()
    channel: str | None = None

    @property
    def level(self) -> str:
        """Return the level whose rows count each message of the subject once."""
        return "queue" if self.channel is None else "channel"

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the subject."""
        if self.queues:
            rows = rows.filter(pc.is_in(rows["queue"], pa.array(self.queues, pa.string())))
        return rows if self.channel is None else rows.filter(pc.equal(rows["channel"], self.channel))


@dataclass(frozen=True, slots=True)
class Data:
    """The data of the report.

    ``by_day``: the rows of ``days``, one a day; ``by_bucket``: one for each of ``times``, which are of ``grain``. Both
    have rows of all levels. ``queues``: the busiest first. ``now``, ``before``: the sums of the last ``compared`` days
    that are over, and of as many before them. ``exported_at``: the time of the last export; ``rollup_due``: whether the
    metrics do not count all that was exported.
    """

    subject: Subject
    days: Sequence[date]
    by_day: pa.Table
    by_bucket: pa.Table
    grain: str = "hour"
    times: Sequence[datetime] = ()
    queues: Sequence[str] = ()
    compared: int = 0
    now: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    exported_at: datetime | None = None
    rollup_due: bool = False

    @property
    def width(self) -> timedelta:
        return WIDTHS[self.grain]


def at_level(rows: pa.Table, level: str) -> pa.Table:
    """Return the rows of one level."""
    return rows.filter(pc.equal(rows["level"], level))


def sums(rows: pa.Table, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Add rows of one level up, grouped by the keys. ``settled``: the messages that a worker or a client took.

    Counts and seconds are added, percentiles are those of the worst row.
    """
    added = [(column, "sum", ZERO) for column in ADDED]
    grouped = rows.group_by([*keys]).aggregate([*added, *((column, "max", None) for column in LONGEST)])
    names = [name.removesuffix("_sum").removesuffix("_max") for name in grouped.column_names]
    found: list[dict[str, Any]] = grouped.rename_columns(names).to_pylist()
    return [row | {"settled": sum(row[name] for name in SETTLED)} for row in found]


def total(rows: pa.Table) -> dict[str, Any]:
    """Add all rows up; they are of one level."""
    return next(iter(sums(rows, ())), dict.fromkeys([*ADDED, "settled"], 0))


def reasons(rows: pa.Table, column: str) -> dict[str, int]:
    """Return how often rows of one level have each reason."""
    found: dict[str, int] = {}
    for counts in rows[column].to_pylist():
        for reason, count in counts or ():
            found[reason] = found.get(reason, 0) + count
    return found


def read(path: Path, subject: Subject, days: int, until: date | None = None) -> Data:
    """Read the newest days of a lake's metrics, or those up to ``until``.

    Raises PipelineError when there is no lake, a file is damaged, or the lake does not know the queue, the channel or
    the period.
    """
    lake = Lake.open(path)
    for left in reversed(range(TRIES)):
        versions = lake.versions
        try:
            data = _read(lake, subject, days, until)
            break
        except PipelineError:
            # An erase deletes at once what it has replaced. What it has written is read again.
            if lake.versions == versions:
                raise
            if not left:
                raise PipelineError(
                    f"The lake in {lake.path} was changed again and again while its metrics were read ({TRIES} tries): "
                    "run it again when it is erased, or computed anew."
                ) from None
    if subject.channel is not None:
        if not data.queues:
            raise PipelineError(
                f"The lake has no metrics of the channel {subject.channel!r} of the queue {subject.queues[0]!r} in "
                "this period."
            )
    elif unknown := sorted({*subject.queues} - {*data.queues}):
        raise PipelineError(f"The lake has no metrics of the queue {unknown[0]!r} in this period.")
    return data


def _read(lake: Lake, subject: Subject, number: int, until: date | None) -> Data:
    files = lake.files("metrics")

    def rows(grain: str, days: Collection[date], *more: str) -> pa.Table:
        paths = [lake.path / file.path for file in files if is_of(file, grain) and file.day in days]
        columns = pa.schema([arrow_schema("metrics").field(name) for name in (*COLUMNS, *more)])
        return subject.of(pa.concat_tables([columns.empty_table(), *(read_file(path, columns) for path in paths)]))

    there = {file.day for file in files if is_of(file, "day")}
    days = _period(there, number, until)
    by_day = rows("day", days, *REASONS)
    if not by_day.num_rows:
        return Data(subject, days, by_day, by_day)
    at = lake.state.get("exported_at")
    exported_at = datetime.fromisoformat(at).astimezone(UTC) if at else None
    last = min(days[-1], exported_at.date() - ONE_DAY) if exported_at else days[-1]
    compared = max(0, min(number, ((last - min(there)).days + 1) // 2))
    now, before = (
        total(at_level(rows("day", [last - ONE_DAY * (start + n) for n in range(compared)]), subject.level))
        for start in (0, compared)
    )
    times = by_day["bucket_at"]
    by_hour = rows("hour", days if _last(times) - _first(times) <= HOURS_UP_TO else ())
    grain = "day" if not by_hour.num_rows else "hour"
    if grain == "hour" and _last(by_hour["bucket_at"]) - _first(by_hour["bucket_at"]) < MINUTES_UP_TO:
        # The lake keeps metrics by minute of its newest days.
        minutes, hours = ({file.day for file in files if is_of(file, which)} for which in ("minute", "hour"))
        grain = "minute" if not (hours - minutes).intersection(days) else grain
    by_bucket = by_hour if grain == "hour" else rows(grain, days, *(REASONS if grain == "day" else ()))
    return Data(
        subject,
        days,
        by_day,
        by_bucket,
        grain,
        _regular(by_bucket["bucket_at"], WIDTHS[grain]),
        [row["queue"] for row in sorted(sums(at_level(by_day, subject.level), ["queue"]), key=_busiest)],
        compared,
        now,
        before,
        exported_at,
        bool(find_touched(lake).days),
    )


def is_of(file: LakeFile, grain: str) -> bool:
    """Return whether a file of metrics has rows of this grain."""
    return file.partition.startswith(f"grain={grain}/")


def _busiest(row: dict[str, Any]) -> tuple[float, str]:
    return -row["settled"], row["queue"]


def _period(there: set[date], number: int, until: date | None) -> list[date]:
    """Return the days of the report. Raises PipelineError if ``until`` is given and none of them has metrics.

    Days after tomorrow are left out if there are others: a message may claim the year 9999.
    """
    if not there:
        return []
    tomorrow = datetime.now(UTC).date() + ONE_DAY
    last = until or max((day for day in there if day <= tomorrow), default=max(there))
    first = max(last.toordinal() - number + 1, min(there).toordinal())
    days = [date.fromordinal(ordinal) for ordinal in range(first, last.toordinal() + 1)]
    if there.isdisjoint(days):
        asked = dict.fromkeys([f"{last - ONE_DAY * (number - 1)}", f"{last}"])
        known = [*day_ranges(sorted(there))]
        more = f" and {len(known) - SHOWN_RANGES} more ranges of days" if len(known) > SHOWN_RANGES else ""
        raise PipelineError(
            f"The lake has no metrics of {' to '.join(asked)}. It has those of {', '.join(known[-SHOWN_RANGES:])}"
            f"{more}: choose with --until and --days, or run rollup."
        )
    return days


def _first(times: pa.ChunkedArray) -> datetime:
    return pc.min(times).as_py()  # type: ignore[no-any-return]


def _last(times: pa.ChunkedArray) -> datetime:
    return pc.max(times).as_py()  # type: ignore[no-any-return]


def _regular(found: pa.ChunkedArray, width: timedelta) -> list[datetime]:
    """Return all buckets from the first to the last, including empty ones."""
    step = width.total_seconds()
    first, last = (int(time.timestamp() // step) for time in (_first(found), _last(found)))
    first = min(first, max(last - FEWEST_BUCKETS + 1, int(EARLIEST.timestamp() // step)))
    return [datetime.fromtimestamp(number * step, UTC) for number in range(first, last + 1)]


def name_of(row: Mapping[str, Any], level: str) -> str:
    """Return what a row is about: a queue, a queue and its channel, or a queue and its handler."""
    return " / ".join(row[key] for key in KEYS[level])
