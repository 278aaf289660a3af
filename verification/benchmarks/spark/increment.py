"""Rollups of a lake of many days in which little is new: nothing, or one new day."""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from django_pgqueue.spark.lake import ParquetLake

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
        repeat(ParquetLake.open(path), days)
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


def repeat(lake: ParquetLake, days: int) -> None:
    """Copy the files of the first day to the days after it, as days that were exported and rolled up."""
    files = [file for number in lake.commit_numbers() for file in lake.commit(number).files if file.table != "forecast"]
    for number in range(1, days):
        day = (DAY + timedelta(days=number)).date()
        with lake.writing() as writing:
            staged = []
            for file in files:
                copy = writing.stage(file.table, file.partition.replace(str(DAY.date()), str(day)))
                shutil.copyfile(lake.path / file.path, copy)
                staged.append(writing.staged(copy, **({"created_days": [str(day)]} if file.more else {})))
            writing.commit("export", staged, state={"rolled_up": lake.head.number + 1})
