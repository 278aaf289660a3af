"""Rollups of a lake of many days in which little is new: nothing, or one new day."""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from django_pgqueue.spark.lake import Lake, StagedFile

from .rollup import DAY, fill, run, summary

PER_DAY = 250_000
NEW = 20_000  # messages of the new day


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report."""
    days = max(1, rows // PER_DAY)
    with tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-") as folder:
        path = Path(folder) / "lake"
        command = [sys.executable, "-m", "django_pgqueue.spark", "rollup", "--lake", str(path)]
        fill(path, DAY, rows // days)
        first, nothing, little = [run(command)], [], []
        repeat(Lake.open(path), days)
        for number in range(rounds):
            nothing.append(run(command))
            fill(path, DAY + timedelta(days=days + number), NEW)
            little.append(run(command))
    return [
        f"rollups of a lake of {rows:,} messages in {days:,} days, which are copies of one",
        f"  the first of one day: {summary(first)}",
        f"  nothing new: {summary(nothing)}",
        f"  a new day of {NEW:,} messages: {summary(little)}",
    ]


def repeat(lake: Lake, days: int) -> None:
    """Copy the files of the first day to the days after it, as days that were exported and rolled up."""
    files = [file for table in ("archive", "metrics") for file in lake.files(table)]
    for number in range(1, days):
        day = (DAY + timedelta(days=number)).date()
        with lake.writing() as writing:
            staged: dict[str, list[StagedFile]] = {"archive": [], "metrics": []}
            for file in files:
                copy = writing.stage(file.table, file.partition.replace(str(DAY.date()), str(day)))
                shutil.copyfile(lake.path / file.path, copy)
                staged[file.table].append(writing.staged(copy))
            writing.commit("archive", "export", staged["archive"])
            writing.commit("metrics", "rollup", staged["metrics"], state={"rolled_up": lake.versions})
