"""Read a lake and write the page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TypeVar

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.files import day_ranges
from django_pgqueue.spark.report.compare import (
    ONE_DAY,
    Comparison,
    compared_days,
    read_comparison,
    read_hours_compared,
)
from django_pgqueue.spark.report.compose import compose, compose_channel
from django_pgqueue.spark.report.read import EVERYTHING, Choice, Data, read_report_data
from django_pgqueue.spark.report.sections.lake import Holdings, holdings

# The most times that a lake is read, if it is written meanwhile.
ATTEMPTS = 5
# The most ranges of days that an error names.
SHOWN_RANGES = 10

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The subject of a report. ``until``: its last day; ``against``: that of the days to compare with."""

    days: int = 7
    choice: Choice = EVERYTHING
    until: date | None = None
    against: date | None = None


def write(path: Path, output: Path, asked: ReportRequest) -> str:
    """Write the report to ``output``. Returns the line that says so.

    Raises PipelineError when there is no lake, a file is damaged, the lake does not know a queue or a channel, or a
    file cannot be written.
    """
    lake = Lake.open(path)
    data, compared, held = steady(lake, lambda: _read(lake, asked))
    _check_known(data, asked.choice)
    composed = compose if asked.choice.channel is None or not data.queues else compose_channel
    page = composed(data, compared, held, datetime.now(UTC))
    _replace(output, page)
    counts = [
        f"{len(data.queues):,} queue{'s' * (len(data.queues) != 1)}",
        f"{len(data.days):,} day{'s' * (len(data.days) != 1)}",
    ]
    return f"{output.resolve()}: {', '.join(counts)}, {len(page.encode()) / 1000:,.0f} kB"


def _read(lake: Lake, asked: ReportRequest) -> tuple[Data, Comparison, Holdings]:
    def files(grain: str, within: Sequence[date]) -> list[Path]:
        return [file for file in lake.paths("metrics", within) if f"grain={grain}" in file.parts]

    there = {file.day for file in lake.files("metrics") if file.partition.startswith("grain=day/")}
    period = _period(there, asked)
    _check_period(there, period, asked)
    last = min([*period[-1:], *_last_whole_day(lake)], default=date.min)
    now, before = compared_days(there, last, asked.days, asked.against)
    compared = read_comparison(files, now, before, asked.choice)
    if period and not now and asked.against is None and (exported_at := _exported_at(lake)):
        over = datetime.combine(period[-1], time(), UTC) + ONE_DAY
        compared = read_hours_compared(files, period, min(exported_at, over), asked.choice)
    return (
        read_report_data(files, period, asked.choice, [day for day in there if period and day > period[-1]]),
        compared,
        holdings(lake),
    )


def _last_whole_day(lake: Lake) -> list[date]:
    """Return the last day that was over when the last export was made; none if there was none."""
    exported_at = _exported_at(lake)
    return [exported_at.date() - ONE_DAY] if exported_at else []


def _exported_at(lake: Lake) -> datetime | None:
    exported_at = lake.state.get("exported_at")
    return datetime.fromisoformat(exported_at).astimezone(UTC) if exported_at else None


def _check_known(data: Data, choice: Choice) -> None:
    """Raise PipelineError if the data have nothing of a queue or a channel that was asked for."""
    if choice.channel is not None:
        if not data.queues:
            raise PipelineError(
                f"The lake has no metrics of the channel {choice.channel!r} of the queue {choice.queues[0]!r} in this "
                "period."
            )
    elif unknown := sorted(set(choice.queues) - set(data.queues)):
        raise PipelineError(f"The lake has no metrics of the queue {unknown[0]!r} in this period.")


def steady(lake: Lake, read: Callable[[], Read]) -> Read:
    """Call ``read`` until its whole result comes from the same versions: a rollup replaces files during a read.

    Raises PipelineError when the lake is written again and again, or a file is missing for another reason.
    """
    for attempt in range(1, ATTEMPTS + 1):
        versions = lake.versions
        try:
            found = read()
        except (PipelineError, FileNotFoundError) as error:
            if lake.versions != versions and attempt < ATTEMPTS:
                continue
            if isinstance(error, FileNotFoundError):
                raise PipelineError(f"{error.filename} has gone while the report read it: run report again.") from error
            raise
        if lake.versions == versions:
            return found
    raise PipelineError(f"The lake in {lake.path} is being written all the time: run report when that is over.")


def _period(there: Collection[date], asked: ReportRequest) -> list[date]:
    """Return the days of the report: ``asked.until``, or else the newest day with metrics, and the days before it.

    Days after tomorrow are left out if there are others: a message may claim the year 9999.
    """
    tomorrow = datetime.now(UTC).date() + ONE_DAY
    if not there:
        return []
    newest = asked.until or max((day for day in there if day <= tomorrow), default=max(there))
    first = max(newest.toordinal() - asked.days + 1, min(there).toordinal())
    return [date.fromordinal(number) for number in range(first, newest.toordinal() + 1)]


def _check_period(there: set[date], period: Sequence[date], asked: ReportRequest) -> None:
    """Raise PipelineError if the last day was given and no day of the period has metrics: the page would be empty."""
    if asked.until is None or not there or not there.isdisjoint(period):
        return
    first = asked.until - ONE_DAY * (asked.days - 1)
    days = [*day_ranges(sorted(there))]
    more = f" and {len(days) - SHOWN_RANGES} more ranges of days" if len(days) > SHOWN_RANGES else ""
    raise PipelineError(
        f"The lake has no metrics of {' to '.join(dict.fromkeys([f'{first}', f'{asked.until}']))}. "
        f"It has those of {', '.join(days[-SHOWN_RANGES:])}{more}: choose with --until and --days, or run rollup."
    )


def _replace(output: Path, text: str) -> None:
    """Write a file atomically: a reader sees the old page or the new one, whole."""
    temporary = None
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=output.parent, suffix=".tmp", delete=False) as file:
            temporary = Path(file.name)
            file.write(text)
        # The page gets the usual permissions; only its owner may read a temporary file.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(output)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise PipelineError(f"{output} cannot be written: {error.strerror}.") from None
