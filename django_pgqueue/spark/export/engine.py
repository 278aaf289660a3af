"""Run the tasks of an export: on Spark, or in this process when there is little to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django_pgqueue.spark.export.options import ExportOptions
from django_pgqueue.spark.export.task import ExportResult, ExportTask, perform
from django_pgqueue.spark.session import session
from django_pgqueue.spark.source import Source

# Up to the size of so many full ranges, this process is done before Spark would have started. The ranges of small days
# are many, and far from full.
FEW_RANGES = 6


def run_tasks(tasks: list[ExportTask], source: Source, folder: str, options: ExportOptions) -> list[ExportResult]:
    """Run all tasks and return their results. If a master is given, Spark runs even a single task."""
    if not tasks:
        return []

    # The closure carries the source, because `parallelize` writes its arguments to a file.
    def perform_all(part: Iterable[ExportTask]) -> Iterator[ExportResult]:
        return (perform(task, source, folder) for task in part)

    if options.master is None and sum(task.bytes for task in tasks) <= FEW_RANGES * options.range_bytes:
        return list(perform_all(tasks))
    with session("pgqueue export", options.master, options.memory, options.conf) as spark:
        return spark.sparkContext.parallelize(tasks, len(tasks)).mapPartitions(perform_all).collect()
