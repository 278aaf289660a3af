"""The rollup of a lake of one day that Spark computes whole: its time and memory, the start of Java included."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import ParquetLake

from .memory import Peak

DAY = datetime(2026, 3, 14, tzinfo=UTC)
CHANNELS, HANDLERS = 200, 5
SECOND = 1_000_000  # microseconds


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report."""
    with tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-") as folder:
        path = Path(folder) / "lake"
        fill(path, rows)
        runs = [run(path) for _ in range(rounds)]
        metrics = sum(pq.read_metadata(file).num_rows for file in ParquetLake.open(path).files("metrics"))
    times = ", ".join(f"{seconds:.1f}" for seconds, _ in runs)
    most = max(peak for _, peak in runs) / 2**20
    line = (
        f"rollup of {rows:,} messages of one day, {metrics:,} rows of metrics: "
        f"{median(seconds for seconds, _ in runs):.1f} s ({times} s), {most:,.0f} MiB"
    )
    return [line]


def run(path: Path) -> tuple[float, int]:
    """Return seconds and bytes of one run of the command, which computes all again."""
    command = [sys.executable, "-m", "django_pgqueue.spark", "rollup", "--lake", str(path), "--all"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with Peak(process.pid) as peak:
        if process.wait() != 0:
            raise SystemExit("the rollup failed")
    return time.perf_counter() - began, peak.bytes


def fill(path: Path, rows: int) -> None:
    """Make a lake with so many messages, spread over a day, 200 channels and 5 handlers."""
    chance = np.random.default_rng(7)
    created = int(DAY.timestamp()) * SECOND + np.sort(chance.integers(0, 80_000 * SECOND, rows))
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
    with ParquetLake.open(path, create=True).writing() as writing:
        file = writing.stage("archive", f"day={DAY.date()}")
        pq.write_table(table, file, compression="zstd")
        staged = writing.staged(file, created_days=[str(DAY.date())])
        writing.commit("export", [staged])
