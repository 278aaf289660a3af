"""Redrive the dead letters that Spark has chosen, in Spark's tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.redrive.batch import Letter, Tally, redrive_batch
from django_pgqueue.spark.redrive.letters import dead_letters, once, prepared
from django_pgqueue.spark.session import session
from django_pgqueue.spark.source import Source, only

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

BATCH_LETTERS = 5_000


def redrive(
    letters: DataFrame | str,
    source: Source,
    *,
    channel: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
) -> Tally:
    """Redrive dead letters, each once; letters that were redriven before are left out. Returns the counts.

    ``letters``: a frame with the column ``id`` and perhaps ``payload`` (text, struct, map or array; NULL keeps the old
    one), or a condition in Spark SQL on the dead letters of the database. ``channel``: another channel of the same
    queue. ``rate``: the most letters per second (default: no limit). ``dry_run``: count only. Raises PipelineError, or
    Spark's exception that holds its text.
    """
    if rate is not None and not rate > 0:
        raise PipelineError(f"A rate of {rate} dead letters per second is not possible: give a number above 0.")
    if not isinstance(letters, str):
        return put_back(once(prepared(letters)), source, channel=channel, rate=rate, dry_run=dry_run)
    with session("pgqueue redrive") as spark:
        chosen = dead_letters(spark, source, letters)
        return put_back(chosen, source, channel=channel, rate=rate, dry_run=dry_run)


def put_back(letters: DataFrame, source: Source, *, channel: str | None, rate: float | None, dry_run: bool) -> Tally:
    """Redrive the letters of a frame that has each id once. Parameters and result are those of `redrive`."""
    with source.connect() as connection, source.errors():
        [began_at] = only(connection.execute("SELECT clock_timestamp()"))
    # The checkpoint keeps the choice: a repeated task has the same letters, although their rows have changed by then.
    frame = prepared(letters).localCheckpoint()
    rows = (frame if rate is None else frame.coalesce(1)).rdd
    speculative = frame.sparkSession.conf.get("spark.speculation", "false") == "true"
    return run_partitions(rows, RedriveTask(source, channel, rate, dry_run, began_at, speculative))


@dataclass(frozen=True, slots=True)
class RedriveTask:
    """Redrive the letters of one partition. The closure carries it, so that the source is in no file.

    ``began_at``: when the job began, by the clock of the database. ``speculative``: Spark may run a task twice at once.
    """

    source: Source
    channel: str | None
    rate: float | None
    dry_run: bool
    began_at: datetime
    speculative: bool = False

    def __call__(self, rows: Iterable[Any]) -> Tally:
        total = Tally()
        size = BATCH_LETTERS if self.rate is None else max(1, min(BATCH_LETTERS, int(self.rate)))
        letters = (Letter(*row) for row in rows)
        earliest = 0.0
        connection = None
        with self.source.errors():
            while batch := list(islice(letters, size)):
                connection = connection or self.source.connect(application_name="pgqueue spark redrive")
                time.sleep(max(0.0, earliest - time.monotonic()))
                total.add(self._batch(connection, batch))
                if self.rate is not None:
                    # From the end of this batch: after a slow one, the next must not make up for lost time.
                    earliest = time.monotonic() + len(batch) / self.rate
        if connection:
            connection.close()
        return total

    def _batch(self, connection: Any, batch: list[Letter]) -> Tally:
        # Only an earlier try of this task can have redriven letters of its own; otherwise it was another job.
        before = self.began_at if self.speculative or was_tried_before() else None
        with connection.transaction(force_rollback=True) if self.dry_run else nullcontext():
            return redrive_batch(connection, batch, self.channel, before)


def was_tried_before() -> bool:
    """Return whether Spark has started this task before, in which case that try may have redriven its letters."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def run_partitions(rows: RDD[Any], task: Callable[[Iterable[Any]], Tally]) -> Tally:
    """Run the task on each partition and return the sum of the results."""
    total = Tally()
    for tally in rows.mapPartitions(lambda part: [task(part)]).collect():
        total.add(tally)
    return total
