"""The export beside single processes without Spark, and an export that finds nothing new."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO

import pyarrow.dataset as ds

from verification.benchmarks.cluster import Cluster

from .contestants import CONTESTANTS
from .database import DATABASE, archive
from .memory import Peak


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one contestant: seconds of each round, and the most memory of its processes."""

    name: str
    rows: int
    seconds: tuple[float, ...]
    peak: int

    @property
    def rate(self) -> float:
        return self.rows / median(self.seconds)

    def ratio_to(self, other: Result) -> float:
        """How many times as fast, as the median of the rounds."""
        return median(theirs / ours for ours, theirs in zip(self.seconds, other.seconds, strict=True))


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report."""
    with archive(rows) as cluster, tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-") as folder:
        results = {result.name: result for result in contest(cluster, rows, rounds, Path(folder))}
        lines = [f"export of {rows:,} rows, {rounds} rounds in turn"]
        for name, result in results.items():
            times = ", ".join(f"{seconds:.2f}" for seconds in result.seconds)
            ratio = results["export"].ratio_to(result)
            comparison = "" if name == "export" else f"; the export is {ratio:.2f} times as fast"
            lines.append(f"  {name}: {result.rate:,.0f} rows/s ({times} s), {result.peak / 2**20:,.0f} MiB{comparison}")
        return [*lines, *commands(cluster, Path(folder))]


def contest(cluster: Cluster, rows: int, rounds: int, folder: Path) -> list[Result]:
    """All take turns; the first round warms up and does not count."""
    processes = {name: start(name, cluster) for name in CONTESTANTS}
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    peaks: defaultdict[str, int] = defaultdict(int)
    try:
        for number in range(rounds + 1):
            for name, process in processes.items():
                path = folder / f"{name}-{number}"
                with cluster.connect(DATABASE) as session:
                    session.execute("CHECKPOINT")
                with Peak(process.pid) as peak:
                    source, sink = pipes(process)
                    sink.write(f"{path}\n")
                    sink.flush()
                    took = float(source.readline())
                check(path, rows)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                peaks[name] = max(peaks[name], peak.bytes)
                if number:
                    seconds[name].append(took)
    finally:
        for process in processes.values():
            pipes(process)[1].close()
            process.wait()
    return [Result(name, rows, tuple(seconds[name]), peaks[name]) for name in CONTESTANTS]


def start(name: str, cluster: Cluster) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "verification.benchmarks.spark.contestants", name],
        env=environment(cluster),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if pipes(process)[0].readline() != "ready\n":
        raise SystemExit(f"{name} did not start")
    return process


def environment(cluster: Cluster) -> dict[str, str]:
    return {**os.environ, "PGQUEUE_SOURCE": cluster.url(DATABASE)}


def check(path: Path, rows: int) -> None:
    found = ds.dataset(path / "archive" if path.is_dir() else path, format="parquet").count_rows()
    if found != rows:
        raise SystemExit(f"{path.name}: {found:,} rows instead of {rows:,}")


def commands(cluster: Cluster, folder: Path) -> list[str]:
    """Whole commands, the start of Python and Spark included: all rows, and then nothing new."""
    lines = []
    for what in ("all rows", "nothing new"):
        command = [sys.executable, "-m", "django_pgqueue.spark", "export", "--lake", str(folder / "lake")]
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment(cluster), stdout=subprocess.DEVNULL)
        with Peak(process.pid) as peak:
            if process.wait() != 0:
                raise SystemExit("the export failed")
        took = time.perf_counter() - began
        lines.append(f"  the command, {what}: {took:.1f} s, {peak.bytes / 2**20:,.0f} MiB")
    return lines


def pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    """Return what the process prints to, and what it reads from."""
    assert process.stdout is not None
    assert process.stdin is not None
    return process.stdout, process.stdin
