"""Increments of 1,000 rows, from their commit to the metrics in the database, by ``run --every`` in one process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from .database import DATABASE, FILL, archive

NEW, INCREMENTS = 1_000, 3
PATIENCE_SECONDS = 600
LOADED = "SELECT coalesce(sum(completed), 0) FROM pgqueue_queue_metric WHERE grain = 'day' AND level = 'queue'"
WAYS = {"as the command chooses": [], "tasks on Spark": ["--master", "local[*,4]"]}


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report. All rows are of one day that gets more, and that each rollup computes anew."""
    lines = [f"increments of {NEW:,} rows after {rows:,} of the same day, with `run --every 100ms`"]
    for name, options in WAYS.items():
        with archive(0) as cluster, cluster.connect(DATABASE) as session:
            seconds = turns(session, cluster.url(DATABASE), rows, options)
        first, *later = (f"{each:.1f}" for each in seconds)
        lines.append(f"  {name}: the first, with all rows: {first} s; then {', '.join(later)} s")
    return lines


def turns(session: psycopg.Connection, url: str, rows: int, options: list[str]) -> list[float]:
    """Return how long the metrics of the first rows took, and each increment."""
    day = f"{datetime.now(UTC).date() - timedelta(days=1)}"
    session.execute(
        f"CREATE TABLE IF NOT EXISTS pgqueue_archived_message_{day.replace('-', '')}"
        f" PARTITION OF pgqueue_archived_message FOR VALUES FROM ('{day} 00:00+00') TO ('{day} 24:00+00')"
    )
    session.execute("SELECT pgqueue_channel_set('default', 'default')")
    session.execute(FILL, {"first": 0, "last": rows - 1, "day": f"{day} 00:00+00"})
    seconds = []
    with tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-") as folder:
        command = [sys.executable, "-m", "django_pgqueue.spark", "run", "--lake", f"{folder}/lake", "--every", "100ms"]
        environment = {**os.environ, "PGQUEUE_SOURCE": url}
        with (
            (Path(folder) / "output").open("w") as output,
            subprocess.Popen([*command, *options], env=environment, stdout=output, stderr=output) as process,
        ):
            try:
                for number in range(INCREMENTS + 1):
                    last = rows + number * NEW
                    if number:
                        session.execute(FILL, {"first": last - NEW, "last": last - 1, "day": f"{day} 00:00+00"})
                    seconds.append(waited_for(session, last))
            finally:
                process.terminate()
    return seconds


def waited_for(session: psycopg.Connection, rows: int) -> float:
    """Wait until the metrics count so many messages. Returns the seconds. Raises TimeoutError."""
    began = time.monotonic()
    while time.monotonic() < began + PATIENCE_SECONDS:
        row = session.execute(LOADED).fetchone()
        if row and row[0] == rows:
            return time.monotonic() - began
        time.sleep(0.05)
    raise TimeoutError(f"the metrics did not reach {rows:,} messages")
