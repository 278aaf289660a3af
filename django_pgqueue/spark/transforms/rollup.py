"""Compute the metrics of the lake again for the days that changed, and only for them.

A day is computed in the memory of one process: this one, or one of Spark's workers.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.lake.files import METADATA, ONE_DAY, changed_partitions, day_of, files_of, state_of
from django_pgqueue.spark.lake.rows import created_days, new_file, open_writer
from django_pgqueue.spark.schema import DAYS
from django_pgqueue.spark.session import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The app id of the transactions of rollups: of two that began at the same version, one commits.
ROLLUP = "pgqueue-rollup"
# The number of messages that are computed before a commit; a killed run repeats them.
BATCH_MESSAGES = 5_000_000
# Up to this number of messages, this process is done before Spark would be, with its start. It needs 0.6 GiB for each
# million messages of a day.
FEW_MESSAGES = 2_000_000
MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True)
class Touched:
    """The days that a rollup has to compute.

    ``versions``: those of the tables that were examined. ``files``: all files of messages.
    """

    versions: dict[str, int]
    days: set[date]
    files: list[LakeFile]

    @property
    def messages(self) -> Counter[date]:
        """Return how many messages the lake has, by day of settlement."""
        counted: Counter[date] = Counter()
        for file in self.files:
            counted[file.day] += file.rows
        return counted

    def settled_on(self, days: Collection[date]) -> set[date]:
        """Return the days on which messages that were created on ``days`` were settled, with ``days`` themselves, and
        perhaps more days."""
        created = ((file.day, file.created) for file in self.files if file.created)
        return {*days} | {day for day, (first, last) in created if _within(days, first.date(), last.date())}

    def state(self) -> dict[str, Any]:
        """Return the state of the metrics to commit."""
        return {"rolled_up": self.versions, "pending": sorted(day.isoformat() for day in self.days)}


def find_touched(lake: Lake, *, everything: bool = False) -> Touched:
    """Return the days to compute now; ``everything``: all days of the lake's messages and of its metrics."""
    tables = {table: lake.delta(table) for table in DAYS}
    versions = {table: delta.version() for table, delta in tables.items()}
    files = [file for table, delta in tables.items() for file in files_of(delta, table)]
    known = state_of(lake.delta("metrics"))
    touched = Touched(versions, {date.fromisoformat(day) for day in known.get("pending", [])}, files)
    try:
        if everything or not known.get("rolled_up"):
            raise FileNotFoundError
        for table in DAYS:
            for actions in lake.log(table, known["rolled_up"][table]):
                touched.days |= changed_days(actions)
    except FileNotFoundError:
        # The log does not go back so far.
        touched.days = {file.day for file in lake.files("metrics")} | {
            day for file in files for day in (file.day, *_created_days(lake, file))
        }
    return touched


def changed_days(actions: Sequence[dict[str, Any]]) -> set[date]:
    """Return the days whose figures a version changes: those of its rows, and those on which they were created."""
    days = {day_of(partition) for partition in changed_partitions(actions)}
    for action in actions:
        noted = action.get("commitInfo", {}).get(METADATA)
        if noted:
            days |= {date.fromisoformat(day) for day in json.loads(noted)["created_days"]}
    return days


def _created_days(lake: Lake, file: LakeFile) -> set[date]:
    if file.created and {at.date() for at in file.created} == {file.day}:
        return {file.day}
    return created_days(lake.path / file.path)


def _within(days: Collection[date], first: date, last: date) -> bool:
    return any(first <= day <= last for day in days)


@dataclass(frozen=True, slots=True)
class Rolled:
    """The result of a rollup. ``days``: the days that were computed, the newest first; ``rows``: the rows of
    metrics.
    """

    days: tuple[date, ...] = ()
    rows: int = 0


def rollup(
    spark: SparkSession | None,
    lake: Lake,
    sla: Mapping[str, timedelta] | None = None,
    *,
    everything: bool = False,
    keep_minutes: int | None = None,
    most: int = BATCH_MESSAGES,
    done: Callable[[int, int], None] = lambda days, of: None,
) -> Rolled:
    """Compute the metrics of the days that changed since the last rollup; ``everything``: compute all days.

    ``spark``: None: this process computes them; otherwise each day is a task.
    ``sla``: how long messages may take, by "queue" or "queue/channel". ``keep_minutes``: only the newest days, so many,
    have metrics by minute; those of older days are removed (default: all have them). Days with about ``most`` messages
    are computed at once, and committed, so that the work of a killed run is kept. ``done`` is called with the number of
    computed days and that of all days. Raises PipelineError when another run writes the lake, or a file cannot be read.
    """
    with lake.writing() as writing:
        touched = find_touched(lake, everything=everything)
        days, rows = sorted(touched.days, reverse=True), 0
        messages = touched.messages
        limits = {name: limit // MICROSECOND for name, limit in (sla or {}).items()}
        minutes_from = first_day_of_minutes(messages, keep_minutes)
        for batch in batches(days, messages, most):
            tasks = plan_days(lake, batch, touched, minutes_from)
            computed = run_tasks(spark, tasks, partial(compute_day, folder=writing.folder, sla=limits))
            files = [writing.staged(path) for paths in computed for path in paths]
            touched.days -= {*batch}
            old = [file for file in lake.files("metrics") if file.day in batch or _is_old(file, minutes_from)]
            writing.commit("metrics", "rollup", files, old, transaction=(ROLLUP, time_ns()), state=touched.state())
            rows += sum(file.rows for file in files)
            done(len(days) - len(touched.days), len(days))
            shutil.rmtree(writing.folder / "metrics", ignore_errors=True)
    return Rolled(tuple(days), rows)


def is_small(touched: Touched) -> bool:
    """Return whether this process computes the days sooner than Spark."""
    messages = touched.messages
    return sum(messages[day] for day in touched.settled_on(touched.days)) <= FEW_MESSAGES


def batches(days: list[date], messages: Mapping[date, int], most: int) -> Iterator[list[date]]:
    """Yield the days that are computed together: days with up to ``most`` messages, but at least one day."""
    batch: list[date] = []
    total = 0
    for day in days:
        if batch and total + messages.get(day, 0) > most:
            yield batch
            batch, total = [], 0
        batch.append(day)
        total += messages.get(day, 0)
    if batch:
        yield batch


def first_day_of_minutes(messages: Collection[date], keep: int | None) -> date:
    """Return the first of the newest ``keep`` days of the lake's messages up to tomorrow; None: the first of all."""
    tomorrow = datetime.now(UTC).date() + ONE_DAY
    newest = max((day for day in messages if day <= tomorrow), default=date.min)
    return date.min if keep is None else date.fromordinal(max(1, newest.toordinal() - keep + 1))


def _is_old(file: LakeFile, minutes_from: date) -> bool:
    return file.partition.startswith("grain=minute/") and file.day < minutes_from


@dataclass(frozen=True, slots=True)
class DayTask:
    """A day whose metrics are computed.

    ``settled``: table and path of the files of messages that were settled on it; ``created``: paths of files of other
    days with messages that were created on it.
    """

    day: date
    grains: tuple[str, ...]
    settled: tuple[tuple[str, Path], ...]
    created: tuple[Path, ...]


def plan_days(lake: Lake, days: Sequence[date], touched: Touched, minutes_from: date) -> list[DayTask]:
    """Return a task for each day. ``minutes_from``: the first day with rows by minute."""
    files: dict[date, list[tuple[str, Path]]] = {}
    for file in touched.files:
        files.setdefault(file.day, []).append((file.table, lake.path / file.path))
    return [
        DayTask(
            day,
            ("minute", "hour", "day") if day >= minutes_from else ("hour", "day"),
            tuple(files.get(day, ())),
            tuple(path for other in touched.settled_on([day]) - {day} for _, path in files.get(other, ())),
        )
        for day in days
    ]


def compute_day(task: DayTask, folder: Path, sla: Mapping[str, int]) -> list[Path]:
    """Compute one day, and write a file for each grain. Raises PipelineError when a file cannot be read.

    ``sla``: microseconds by "queue" or "queue/channel".
    """
    from django_pgqueue.spark.transforms.buckets import day_metrics
    from django_pgqueue.spark.transforms.messages import read_messages

    messages = read_messages(task.day, task.settled, task.created)
    paths = []
    for grain, rows in day_metrics(task.day, messages, sla, task.grains).items():
        if rows.num_rows:
            paths.append(new_file(folder, "metrics", f"grain={grain}/day={task.day}"))
            with open_writer(paths[-1], rows.schema) as writer:
                writer.write_table(rows)
    return paths
