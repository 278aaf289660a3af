"""Compute the metrics of days one by one, each in the memory of one process: in this one, or in Spark's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from django_pgqueue.spark.errors import PipelineError, refused_by_disk
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.rewriting import open_writer
from django_pgqueue.spark.transforms.touched import Touched

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class DayTask:
    """A day whose metrics are computed.

    ``settled``: table and path of the files of messages that were settled on it; ``created``: paths of files of other
    days with messages that were created on it.
    """

    day: date
    grains: tuple[str, ...]
    settled: tuple[tuple[str, str], ...]
    created: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DayResult:
    """The files of a day in the staging folder. ``failure``: why it was not computed, or ""."""

    files: tuple[str, ...] = ()
    failure: str = ""


def plan_days(lake: Lake, days: Sequence[date], touched: Touched, minutes_from: date) -> list[DayTask]:
    """Return a task for each day. ``minutes_from``: the first day with rows by minute."""
    files: dict[date, list[tuple[str, str]]] = {}
    for file in touched.files:
        files.setdefault(file.day, []).append((file.table, str(lake.path / file.path)))
    return [
        DayTask(
            day,
            ("minute", "hour", "day") if day >= minutes_from else ("hour", "day"),
            tuple(files.get(day, ())),
            tuple(path for other in touched.settled_on([day]) - {day} for _, path in files.get(other, ())),
        )
        for day in days
    ]


def compute_days(
    tasks: Sequence[DayTask], folder: Path, sla: Mapping[str, int], context: SparkContext | None
) -> list[Path]:
    """Write the metrics of days into a staging folder, and return the files.

    ``sla``: microseconds by "queue" or "queue/channel". ``context``: Spark's, whose workers compute several days at a
    time; None: this process computes one after the other. Raises PipelineError when a file cannot be read.
    """
    staging = str(folder)

    def compute(part: Iterable[DayTask]) -> Iterator[DayResult]:
        return (compute_day(task, staging, sla) for task in part)

    if context is None or not tasks:
        results = list(compute(tasks))
    else:
        results = context.parallelize(tasks, len(tasks)).mapPartitions(compute).collect()
    for result in results:
        if result.failure:
            raise PipelineError(result.failure)
    return [Path(file) for result in results for file in result.files]


def compute_day(task: DayTask, folder: str, sla: Mapping[str, int]) -> DayResult:
    """Compute one day, and write a file for each grain. A file that cannot be read is a ``failure``: Spark would turn
    an exception into pages of text.
    """
    from django_pgqueue.spark.transforms.buckets import day_metrics
    from django_pgqueue.spark.transforms.messages import read_messages

    try:
        messages = read_messages(task.day, task.settled, task.created)
    except PipelineError as error:
        return DayResult(failure=str(error))
    tables = day_metrics(task.day, messages, sla, task.grains)
    try:
        files = tuple(_write(rows, Path(folder), grain, task.day) for grain, rows in tables.items() if rows.num_rows)
    except OSError as error:
        if refusal := refused_by_disk(error):
            return DayResult(failure=str(refusal))
        raise
    return DayResult(files)


def _write(rows: pa.Table, folder: Path, grain: str, day: date) -> str:
    # Parents are not made: the staging folder of a run that was killed must not come back.
    for name in ("metrics", f"grain={grain}", f"day={day}"):
        folder /= name
        folder.mkdir(exist_ok=True)
    path = folder / f"{uuid4().hex}.parquet"
    with open_writer(path, rows.schema) as writer:
        writer.write_table(rows)
    return str(path)
