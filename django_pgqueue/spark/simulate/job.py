"""Run scenarios, each in a Spark task of its own: a replay of the past, and one with other limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.lake.rows import read_table
from django_pgqueue.spark.schema import arrow_schema
from django_pgqueue.spark.simulate.capacity import Capacity
from django_pgqueue.spark.simulate.engine import Simulation
from django_pgqueue.spark.simulate.limits import Change, ChannelLimits, QueueLimits, SharedLimits, changed
from django_pgqueue.spark.simulate.outcome import SECOND_MICROSECONDS, SimulationOutcome, WaitRecorder
from django_pgqueue.spark.simulate.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("archive", "dead_letter")
# The defaults of runqueueworker.
CONCURRENCY_SLOTS = 4
BATCH_MESSAGES = 100
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The input of one simulation.

    ``files``: the lake's files, by table. ``workers``: the number of workers (None: as in the archive).
    ``concurrency``: handlers at a time of each worker (None: CONCURRENCY_SLOTS, or more if the archive shows more);
    ``batch``: the most messages that a worker dequeues at once. ``limits``: those of the whole queue;
    ``shared``: shared limits.
    """

    queue: str
    files: dict[str, list[str]]
    changes: tuple[Change, ...] = ()
    workers: int | None = None
    concurrency: int | None = None
    batch: int = BATCH_MESSAGES
    limits: QueueLimits = field(default_factory=QueueLimits)
    shared: tuple[SharedLimits, ...] = ()

    @property
    def as_it_was(self) -> bool:
        return not (self.changes or self.workers or self.shared) and self.limits == QueueLimits()


def simulate(spark: SparkSession, lake: ParquetLake, scenarios: Iterable[Scenario]) -> list[SimulationOutcome]:
    """Run the scenarios side by side. Returns their outcomes in order.

    Raises PipelineError, or Spark's exception that holds its text.
    """
    scenarios = list(scenarios)
    return spark.sparkContext.parallelize(scenarios, len(scenarios)).map(play).collect()


def files_of(lake: ParquetLake, days: int | None) -> tuple[dict[str, list[str]], list[date]]:
    """Return the files of the last ``days`` days (UTC) with messages, or of all days; and those days."""
    found = sorted({date.fromisoformat(name[-10:]) for table in TABLES for name in lake.partitions(table)})
    chosen = found[-days:] if days else found
    files = {table: [str(path) for path in lake.files(table, chosen)] for table in TABLES}
    files["channel"] = [str(path) for path in lake.files("channel")]
    return files, chosen


def play(scenario: Scenario) -> SimulationOutcome:
    """Run one scenario, from the files to the waits. Raises PipelineError."""
    workload = Workload.load({table: scenario.files[table] for table in TABLES}, scenario.queue)
    began_at, ended_at = workload.window
    known = in_force(scenario.files.get("channel", []), scenario.queue, ended_at)
    limits = changed({name: known.get(name, ChannelLimits()) for name in workload.channels}, scenario.changes)
    capacity = Capacity.of(workload.attempts())
    workers = scenario.workers or capacity.workers
    concurrency = scenario.concurrency or max(capacity.concurrency, CONCURRENCY_SLOTS)
    record = WaitRecorder()
    ahead = workers * scenario.batch
    simulation = Simulation(
        limits,
        workers * concurrency,
        record,
        ahead=ahead,
        queue=scenario.limits,
        shared=scenario.shared,
        processes=workers,
    )
    result = simulation.run(workload.messages(concurrency, scenario.shared))
    capacity = Capacity(workers, concurrency)
    shown = {name: each.as_json() for name, each in limits.items()}
    return replace(
        record.outcome(result, capacity, began_at, shown),
        queue_limits=scenario.limits.as_json(),
        shared_limits={each.name: each.as_json() for each in scenario.shared},
    )


def in_force(paths: list[str], queue: str, ended_at: int) -> dict[str, ChannelLimits]:
    """Return the limits of a queue's channels at a moment.

    They come from the first snapshot after it, or else from the last one before. A channel that was removed keeps those
    of its last snapshot.
    """
    until = EPOCH + timedelta(microseconds=ended_at)
    found = read_table("channel", map(Path, paths), arrow_schema("channel").names).to_pylist()
    rows = [row for row in found if row["queue"] == queue]
    later = [row["exported_at"] for row in rows if row["exported_at"] >= until]
    rows = [row for row in rows if not later or row["exported_at"] <= min(later)]
    return {row["name"]: _limits(row) for row in sorted(rows, key=itemgetter("exported_at"))}


def _limits(row: dict[str, Any]) -> ChannelLimits:
    """Return the limits of a row, without pauses: the messages of the archive did run."""
    interval = row["release_interval_seconds"]
    # Files of older versions do not say whether a channel was ordered.
    ordered = bool(row["ordered"])
    # A released channel drains without limits, in its order.
    if row["released_at"] is not None:
        return ChannelLimits(weight=row["weight"], ordered=ordered)
    return ChannelLimits(
        max_concurrency=row["max_concurrency"],
        release_interval=None if interval is None else round(interval * SECOND_MICROSECONDS),
        release_burst=row["release_burst"],
        weight=row["weight"],
        ordered=ordered,
    )
