"""Run the tasks of an export: on Spark, or in this process when there is little to read."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from django_pgqueue.spark.export.options import ExportOptions
from django_pgqueue.spark.export.task import ExportResult, ExportTask, perform
from django_pgqueue.spark.progress import Progress, collect
from django_pgqueue.spark.session import session
from django_pgqueue.spark.source import Source

if TYPE_CHECKING:
    from pyspark import SparkContext

# Up to the size of so many full ranges, this process is done before Spark would have started. The ranges of small days
# are many, and far from full.
FEW_RANGES = 6


def run_tasks(
    tasks: list[ExportTask], source: Source, folder: str, progress: Progress, options: ExportOptions
) -> list[ExportResult]:
    """Run all tasks and return their results. If a master is given, Spark runs even a single task."""
    if not tasks:
        return []
    if options.master is None and sum(task.bytes for task in tasks) <= FEW_RANGES * options.range_bytes:
        return [run_here(task, source, folder, progress) for task in tasks]
    with session("pgqueue export", options.master, options.memory, options.conf) as spark:
        return run_on_spark(tasks, source, folder, progress, spark.sparkContext)


def run_here(task: ExportTask, source: Source, folder: str, progress: Progress) -> ExportResult:
    """Run a task in this process."""
    result = perform(task, source, folder)
    progress.add(result.rows)
    return result


def run_on_spark(
    tasks: list[ExportTask], source: Source, folder: str, progress: Progress, context: SparkContext
) -> list[ExportResult]:
    """Run each task in a partition of its own."""

    # The closure carries the source, because `parallelize` writes its arguments to a file.
    def one(part: Iterable[ExportTask]) -> ExportResult:
        [task] = part
        return perform(task, source, folder)

    return collect(context.parallelize(tasks, len(tasks)), one, attrgetter("rows"), progress)
