"""Runs the tasks of an export: on Spark, or right here when there is little to read."""

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

# So many ranges are read before Spark would be up.
FEW = 6


def run(
    tasks: list[ExportTask], source: Source, folder: str, progress: Progress, options: ExportOptions
) -> list[ExportResult]:
    """The results of all tasks. Where a master is asked for, Spark is used for however little."""
    if not tasks:
        return []
    if options.master is None and sum(len(task.ranges) for task in tasks) <= FEW:
        return [run_here(task, source, folder, progress) for task in tasks]
    with session("pgqueue export", options.master, options.memory, options.conf) as spark:
        return run_on_spark(tasks, source, folder, progress, spark.sparkContext)


def run_here(task: ExportTask, source: Source, folder: str, progress: Progress) -> ExportResult:
    result = perform(task, source, folder)
    progress.add(result.rows)
    return result


def run_on_spark(
    tasks: list[ExportTask], source: Source, folder: str, progress: Progress, context: SparkContext
) -> list[ExportResult]:
    # The source is in the function: what `parallelize` is given goes through a file.
    def one(part: Iterable[ExportTask]) -> ExportResult:
        [task] = part
        return perform(task, source, folder)

    return collect(context.parallelize(tasks, len(tasks)), one, attrgetter("rows"), progress)
