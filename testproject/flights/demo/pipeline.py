"""From the archive to the lake, to metrics and to a page: the commands as one would type them, and a check of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection

from flights.channels import OFFICE, QUEUE
from flights.demo import queries
from flights.demo.check import Check, compare

LAST_WORDS = 10
# Compiled quickly: so few rows are not worth the time that good code takes.
QUICK = "--conf=spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"
MARKER = "_pgqueue/lake.json"


@dataclass(frozen=True, slots=True)
class QueueReport:
    """``wait``: until the last lease; ``total``: from the enqueue to the end."""

    queue: str
    completed: int
    dead: int
    retries: int
    wait_p50: timedelta
    wait_p95: timedelta
    wait_p99: timedelta
    total_p50: timedelta
    total_p95: timedelta
    total_p99: timedelta


class PipelineFailed(Exception):
    """A command of the pipeline ended with an error; its last words."""


def lake() -> Path:
    """Beside the embedded server's data, unless PGQUEUE_LAKE says otherwise."""
    return Path(os.environ.get("PGQUEUE_LAKE") or settings.REPOSITORY / ".pgqueue" / "lake")


def page() -> Path:
    return lake().with_name("report.html")


def remove_lake() -> None:
    """The lake of the demo before: its rows are not in this archive."""
    if not lake().exists():
        return
    if not (lake() / MARKER).exists():
        raise PipelineFailed(f"{lake()} is no lake, so the demo does not touch it: move it away.")
    shutil.rmtree(lake())


def commands() -> Iterator[list[str]]:
    """As one would type them, in this order."""
    actions = (
        ["export"],
        ["verify"],
        ["rollup", QUICK],
        ["report", f"--output={os.path.relpath(page())}"],
        # These flights would die again, so the demo only counts them.
        ["redrive", '--where=reason = "never_departed"', "--dry-run", QUICK],
    )
    for action, *options in actions:
        yield ["manage.py", "pgqueue", "lake", action, f"--lake={os.path.relpath(lake())}", *options]


def run(command: list[str]) -> list[str]:
    """Run the command and return its output. Raises PipelineFailed."""
    script, *arguments = command
    done = subprocess.run(
        [sys.executable, str(Path(settings.PROJECT) / script), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode != 0:
        last = "\n".join(lines[-LAST_WORDS:]) or "It said nothing."
        raise PipelineFailed(f"{' '.join(command)} ended with status {done.returncode}:\n{last}")
    return lines


def travelled() -> str:
    """Ask the lake for its archive of now and of the beginning, and say what it answers."""
    from deltalake import DeltaTable

    now, first = (DeltaTable(lake() / "archive", version=version) for version in (None, 0))
    had, has = (table.to_pyarrow_dataset().count_rows() for table in (first, now))
    return f"Time travel: the archive in the lake had {had:,} rows in version 0, and has {has:,} in {now.version()}."


def check() -> Check:
    """The metrics that came back from the lake, against the same figures computed from the archive itself."""
    expected, rolled_up = rows(queries.METRICS), rows(queries.ROLLED_UP)
    messages = sum(row[0] + row[1] for row in expected.values())
    return Check(
        "metrics",
        f"{messages:,} messages, {len(expected):,} channels",
        compare(
            {key: shown(row) for key, row in expected.items()},
            {key: shown(row) for key, row in rolled_up.items()},
            "channel",
            ("the archive", "the metrics"),
        ),
    )


def queues() -> list[QueueReport]:
    """Return the metrics of the demo's queues, by day."""
    with connection.cursor() as cursor:
        cursor.execute(queries.QUEUES, {"queues": [QUEUE, OFFICE]})
        return [QueueReport(*row) for row in cursor.fetchall()]


def rows(sql: str) -> dict[str, tuple[int | None, ...]]:
    """Figures by channel and day; durations in microseconds."""
    with connection.cursor() as cursor:
        cursor.execute(sql, {"queues": [QUEUE, OFFICE]})
        return {key: tuple(figures) for key, *figures in cursor.fetchall()}


def shown(figures: tuple[int | None, ...]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in zip(queries.FIGURES, figures, strict=True))
