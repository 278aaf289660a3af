"""Runs the tasks of an export: on Spark, or right here when there is little to read."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from django_pgqueue.spark.export.options import Options
from django_pgqueue.spark.export.task import Result, Task, perform
from django_pgqueue.spark.progress import Progress, collect
from django_pgqueue.spark.session import session
from django_pgqueue.spark.source import Source

if TYPE_CHECKING:
    from pyspark import SparkContext

# So many ranges are read before Spark would be up.
FEW = 6


def run(tasks: list[Task], source: Source, folder: str, progress: Progress, options: Options) -> list[Result]:
    """The results of all tasks. Where a master is asked for, Spark is used for however little."""
    if not tasks:
        return []
    if options.master is None and sum(len(task.ranges) for task in tasks) <= FEW:
        return [run_here(task, source, folder, progress) for task in tasks]
    with session("pgqueue export", options.master, options.memory, options.conf) as spark:
        return run_on_spark(tasks, source, folder, progress, spark.sparkContext)


def run_here(task: Task, source: Source, folder: str, progress: Progress) -> Result:
    result = perform(task, source, folder)
    progress.add(result.rows)
    return result


def run_on_spark(
    tasks: list[Task], source: Source, folder: str, progress: Progress, context: SparkContext
) -> list[Result]:
    # The source is in the function: what `parallelize` is given goes through a file.
    def one(part: Iterable[Task]) -> Result:
        [task] = part
        return perform(task, source, folder)

    return collect(context.parallelize(tasks, len(tasks)), one, attrgetter("rows"), progress)
