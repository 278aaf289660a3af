"""The rollup of a lake of one day, computed whole in two ways: its time and memory, with all that is started."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import Lake

from .memory import Peak

DAY = datetime(2026, 3, 14, tzinfo=UTC)
CHANNELS, HANDLERS = 200, 5
SECOND = 1_000_000  # microseconds


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report."""
    with tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-") as folder:
        path = Path(folder) / "lake"
        fill(path, DAY, rows)
        lines = []
        for name, command in commands(path).items():
            runs = [run(command) for _ in range(rounds)]
            metrics = sum(pq.read_metadata(file).num_rows for file in Lake.open(path).paths("metrics"))
            lines.append(
                f"rollup of {rows:,} messages of one day, {metrics:,} rows of metrics, {name}: {summary(runs)}"
            )
    return lines


def commands(path: Path) -> dict[str, list[str]]:
    """All compute all days again."""
    rollup = [sys.executable, "-m", "django_pgqueue.spark", "rollup", "--lake", str(path), "--all"]
    return {"as the command chooses": rollup, "tasks on Spark": [*rollup, "--master", "local[*,4]"]}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command, with the start of Python and Java. ``cpu_seconds``: those of all its processes."""

    seconds: float
    cpu_seconds: float
    bytes: int


def run(command: list[str]) -> Run:
    """Run a command and measure it."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with Peak(process.pid) as peak:
        if process.wait() != 0:
            raise SystemExit("the rollup failed")
    return Run(time.perf_counter() - began, peak.cpu_seconds, peak.bytes)


def summary(runs: list[Run]) -> str:
    """The medians of some runs, and the most memory."""
    seconds = median(run.seconds for run in runs)
    times = ", ".join(f"{run.seconds:.1f}" for run in runs)
    most = max(run.bytes for run in runs) / 2**20
    processor = median(run.cpu_seconds for run in runs)
    return f"{seconds:.1f} s ({times} s), {processor:.1f} s of the processor, {most:,.0f} MiB"


def fill(path: Path, day: datetime, rows: int) -> None:
    """Add so many messages to a lake, spread over a day, 200 channels and 5 handlers."""
    chance = np.random.default_rng(7)
    created = int(day.timestamp()) * SECOND + np.sort(chance.integers(0, 80_000 * SECOND, rows))
    leased = created + chance.exponential(2 * SECOND, rows).astype("int64")
    archived = leased + chance.exponential(SECOND // 2, rows).astype("int64")
    columns = {
        "id": np.arange(rows),
        "queue": pa.repeat("default", rows),
        "channel": pa.DictionaryArray.from_arrays(
            chance.integers(0, CHANNELS, rows), [f"tenant {n}" for n in range(CHANNELS)]
        ).cast(pa.string()),
        "handler": pa.DictionaryArray.from_arrays(
            chance.integers(0, HANDLERS, rows), [f"shop.step_{n}" for n in range(HANDLERS)]
        ).cast(pa.string()),
        "attempts": np.ones(rows, "int32"),
        "outcome": pa.repeat("completed", rows),
    } | {
        name: pa.array(values).cast(schema.TIME)
        for name, values in (
            ("created_at", created), ("dequeue_at", created), ("leased_at", leased), ("started_at", leased),
            ("archived_at", archived),
        )
    }  # fmt: skip
    wanted = schema.arrow_schema("archive")
    table = pa.table(
        {field.name: columns.get(field.name, pa.nulls(rows, field.type)) for field in wanted}
    ).cast(wanted)  # fmt: skip
    with Lake.open(path, create=True).writing() as writing:
        file = writing.stage("archive", f"day={day.date()}")
        pq.write_table(table, file, compression="zstd")
        writing.commit("archive", "export", [writing.staged(file)])
