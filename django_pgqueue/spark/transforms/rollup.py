"""Compute the metrics of the lake again for the days that changed, and only for them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING
from urllib.parse import unquote

from django_pgqueue.spark.errors import refused_by_disk, unreadable
from django_pgqueue.spark.lake import Lake, LakeFile, StagedFile
from django_pgqueue.spark.lake.files import ONE_DAY
from django_pgqueue.spark.lake.tables import COUNTED
from django_pgqueue.spark.lake.writing import Writing
from django_pgqueue.spark.transforms.by_day import compute_days, plan_days
from django_pgqueue.spark.transforms.touched import Touched, find_touched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query(name: str) -> str:
    """Return the text of ``<name>.sql`` in this folder."""
    return Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")


UNREADABLE = re.compile(
    r"(?:FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|PATH_NOT_FOUND)\b.*?(?:file:/{0,2})?(/[^/]\S*\.parquet)", re.S
)


@contextmanager
def unreadable_as_pipeline_errors() -> Iterator[None]:
    """Raise PipelineError when Spark cannot read a file of the lake, with its name, or the disk refuses a write."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if found := UNREADABLE.search(str(error)):
            raise unreadable(unquote(found[1])) from None
        raise refused_by_disk(error) or error from None


# The app id of the transactions of rollups: of two that began at the same version, one commits.
ROLLUP = "pgqueue-rollup"
# The number of messages that are computed at once; Spark sorts them on disk, and a killed run repeats them.
BATCH_MESSAGES = 5_000_000
# Up to this number of messages, this process is done before Spark would be, with its start. It is no larger than
# LARGE_DAY, so that each of these days fits into memory.
FEW_MESSAGES = 2_000_000
# Days with more messages are computed by Spark alone, which sorts them on disk. In arrays, a day of this size needs
# 1.2 GiB, and each of Spark's cores may have one at a time.
LARGE_DAY = 2_000_000
# Percentiles of up to half this number of messages are exact; others are off by at most one rank in this number.
ACCURACY = 100_000
FALLBACK = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"
MICROSECOND = timedelta(microseconds=1)


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
    large: int = LARGE_DAY,
    done: Callable[[int, int], None] = lambda days, of: None,
) -> Rolled:
    """Compute the metrics of the days that changed since the last rollup; ``everything``: compute all days.

    ``spark``: None: this process computes them, whatever they need of its memory. ``large``: Spark computes days with
    more messages in SQL, and each other day as one task.
    ``sla``: how long messages may take, by "queue" or "queue/channel". ``keep_minutes``: only the newest days, so many,
    have metrics by minute; those of older days are removed (default: all have them). Days with about ``most`` messages
    are computed at once, and committed, so that the work of a killed run is kept. ``done`` is called with the number of
    computed days and that of all days. Raises PipelineError when another run writes the lake, or a file cannot be read.
    """
    with lake.writing() as writing:
        touched = find_touched(lake, everything=everything)
        days, rows = sorted(touched.days, reverse=True), 0
        messages = _messages(touched)
        minutes_from = first_day_of_minutes(messages, keep_minutes)
        for batch in batches(days, messages, most):
            files = _compute(spark, lake, batch, touched, sla or {}, minutes_from, writing, large)
            touched.days -= {*batch}
            old = [file for file in lake.files("metrics") if file.day in batch or _is_old(file, minutes_from)]
            writing.commit("metrics", "rollup", files, old, transaction=(ROLLUP, time_ns()), state=touched.state())
            rows += sum(file.rows for file in files)
            done(len(days) - len(touched.days), len(days))
            shutil.rmtree(writing.folder / "metrics", ignore_errors=True)
    return Rolled(tuple(days), rows)


def is_small(touched: Touched) -> bool:
    """Return whether this process computes the days sooner than Spark."""
    messages = _messages(touched)
    return sum(messages.get(day, 0) for day in touched.settled_on(touched.days)) <= FEW_MESSAGES


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


def _compute(
    spark: SparkSession | None,
    lake: Lake,
    days: Collection[date],
    touched: Touched,
    sla: Mapping[str, timedelta],
    minutes_from: date,
    writing: Writing,
    large: int,
) -> list[StagedFile]:
    """Write the metrics of these days into the staging folder, and return the files."""
    messages = _messages(touched)
    in_sql = [] if spark is None else [day for day in days if messages.get(day, 0) > large]
    files: list[StagedFile] = []
    if spark is not None and in_sql:
        with (
            unreadable_as_pipeline_errors(),
            one_by_one(spark),
            metric_rows(spark, lake, in_sql, touched, sla, minutes_from) as frame,
        ):
            files = _write(frame, writing)
    tasks = plan_days(lake, [day for day in days if day not in in_sql], touched, minutes_from)
    limits = {name: limit // MICROSECOND for name, limit in sla.items()}
    context = None if spark is None else spark.sparkContext
    return files + [writing.staged(path) for path in compute_days(tasks, writing.folder, limits, context)]


@contextmanager
def metric_rows(
    spark: SparkSession,
    lake: Lake,
    days: Collection[date],
    touched: Touched,
    sla: Mapping[str, timedelta],
    minutes_from: date,
) -> Iterator[DataFrame]:
    """Yield the rows of these days, with `day`: all grains, and all levels from the queue to the handler.

    ``minutes_from``: the first day with rows by minute.
    """
    from pyspark import StorageLevel

    limits = json.dumps({name: limit // MICROSECOND for name, limit in sla.items()})
    measured = spark.sql(
        query("measured"),
        args={"sla": limits},
        archive=lake.read(spark, "archive", days),
        dead_letter=lake.read(spark, "dead_letter", days),
    )
    # The frame is used three times.
    measured.persist(StorageLevel.DISK_ONLY)
    try:
        yield spark.sql(
            query("rollup"),
            args={"sla": limits, "accuracy": ACCURACY, "minutes_from": minutes_from.isoformat()},
            measured=measured,
            created=_created(spark, lake, days, touched),
        )
    finally:
        measured.unpersist()


@contextmanager
def one_by_one(spark: SparkSession) -> Iterator[None]:
    """Make Spark aggregate group by group, sorted on disk.

    The percentiles of a large group need some megabytes, and the usual 128 groups at once would not fit into the memory
    of a session.
    """
    before = spark.conf.get(FALLBACK)
    spark.conf.set(FALLBACK, "1")
    try:
        yield
    finally:
        if before is not None:
            spark.conf.set(FALLBACK, before)


def _created(spark: SparkSession, lake: Lake, days: Collection[date], touched: Touched) -> DataFrame:
    """Return the messages that were created on these days, whenever they were settled."""
    from pyspark.sql import functions as f

    archive, dead_letters = (
        lake.read(spark, table, touched.settled_on(days)).select("queue", "channel", "handler", "created_at")
        for table in COUNTED
    )
    # The comparison is by text: Java has no Date for the year 1, and infinity is exported as that year.
    created_on = f.to_date("created_at").cast("string")
    return archive.union(dead_letters).where(created_on.isin([day.isoformat() for day in days]))


def _messages(touched: Touched) -> dict[date, int]:
    """Return how many messages the lake has, by day of settlement."""
    counted: dict[date, int] = {}
    for file in touched.files:
        counted[file.day] = counted.get(file.day, 0) + file.rows
    return counted


def _write(frame: DataFrame, writing: Writing) -> list[StagedFile]:
    # There is one file for each grain and day, and a channel's rows are neighbours in it.
    (
        frame.repartition("grain", "day")
        .sortWithinPartitions("grain", "day", "queue", "channel", "handler", "bucket_at")
        .write.partitionBy("grain", "day")
        .parquet(f"{writing.folder}/metrics", mode="overwrite", compression="zstd")
    )
    return writing.collect("metrics")
