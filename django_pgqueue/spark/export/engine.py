"""Runs the tasks of an export: on Spark, or right here when there is little to read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from django_pgqueue.spark.session import session
from django_pgqueue.spark.source import Source

from .options import Options
from .progress import Progress
from .task import Result, Task, perform

if TYPE_CHECKING:
    from pyspark import SparkContext

# So many ranges are read before Spark would be up.
FEW = 6
TICK = 0.2  # seconds between two looks at the progress


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
    done, rows = context.accumulator(0), context.accumulator(0)

    # The source is in the function: what `parallelize` is given goes through a file.
    def counted(task: Task) -> Result:
        result = perform(task, source, folder)
        done.add(1)
        rows.add(result.rows)
        return result

    job = context.parallelize(tasks, len(tasks)).map(counted)
    with ThreadPoolExecutor(1, thread_name_prefix="export") as pool:
        results = pool.submit(job.collect)
        try:
            while wait([results], TICK).not_done:
                progress.set(done.value, rows.value)
        except BaseException:
            context.cancelAllJobs()
            raise
        progress.set(done.value, rows.value)
        return results.result()
