"""Read a lake and write the page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.lake.commit import day_of
from django_pgqueue.spark.report.compose import compose
from django_pgqueue.spark.report.holdings import Holdings, holdings
from django_pgqueue.spark.report.read import Data, read_forecast, read_report_data

# The most times that a lake is read, if it is written meanwhile.
ATTEMPTS = 5

Read = TypeVar("Read")


def write(path: Path, output: Path, *, days: int, queues: Sequence[str] = ()) -> str:
    """Write the report of the newest ``days`` days to ``output``. Returns the line that says so.

    Raises PipelineError when there is no lake, a file is damaged, the lake does not know a queue, or ``output`` cannot
    be written.
    """
    lake = ParquetLake.open(path)

    def everything() -> tuple[Data, pa.Table, Holdings]:
        period = _period(lake, days)
        data = read_report_data(lambda grain, within: _metrics(lake, grain, within), period, queues)
        return data, read_forecast(_newest_forecast(lake)), holdings(lake)

    data, expected, held = steady(lake, everything)
    if unknown := sorted(set(queues) - set(data.queues)):
        raise PipelineError(f"The lake has no metrics of the queue {unknown[0]!r} in this period.")
    page = compose(data, expected, held, datetime.now(UTC))
    _replace(output, page)
    counts = [
        f"{len(data.queues):,} queue{'s' * (len(data.queues) != 1)}",
        f"{len(data.days):,} day{'s' * (len(data.days) != 1)}",
    ]
    return f"{output.resolve()}: {', '.join(counts)}, {len(page.encode()) / 1000:,.0f} kB"


def steady(lake: ParquetLake, read: Callable[[], Read]) -> Read:
    """Call ``read`` until its whole result comes from one commit: a rollup replaces files during a read.

    Raises PipelineError when the lake is written again and again, or a file is missing for another reason.
    """
    for attempt in range(1, ATTEMPTS + 1):
        head = lake.head.number
        try:
            found = read()
        except (PipelineError, FileNotFoundError) as error:
            if lake.head.number != head and attempt < ATTEMPTS:
                continue
            if isinstance(error, FileNotFoundError):
                raise PipelineError(f"{error.filename} has gone while the report read it: run report again.") from error
            raise
        if lake.head.number == head:
            return found
    raise PipelineError(f"The lake in {lake.path} is being written all the time: run report when that is over.")


def _period(lake: ParquetLake, days: int) -> list[date]:
    """Return the newest day with metrics, and the days before it.

    Days after tomorrow are left out if there are others: a message may claim the year 9999.
    """
    there = [day_of(partition) for partition in lake.partitions("metrics") if partition.startswith("grain=day/")]
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    if not there:
        return []
    newest = max((day for day in there if day <= tomorrow), default=max(there))
    first = max(newest.toordinal() - days + 1, min(there).toordinal())
    return [date.fromordinal(number) for number in range(first, newest.toordinal() + 1)]


def _metrics(lake: ParquetLake, grain: str, days: Sequence[date]) -> list[Path]:
    return [file for file in lake.files("metrics", days) if f"grain={grain}" in file.parts]


def _newest_forecast(lake: ParquetLake) -> list[Path]:
    """Return the files of the newest forecast. Its day is that of the computation, not of the metrics."""
    newest = max(map(day_of, lake.partitions("forecast")), default=None)
    return [] if newest is None else lake.files("forecast", [newest])


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
