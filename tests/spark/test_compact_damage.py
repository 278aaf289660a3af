"""Compaction of a lake that lacks files, or has damaged ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from shutil import rmtree

import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark.lake import ParquetLake
from tests.spark.test_compact import DAY, NEXT_DAY, add, compact


@pytest.fixture
def made(lake: Path) -> ParquetLake:
    """A lake with three small files on each of two days."""
    made = ParquetLake.open(lake, create=True)
    for n in range(6):
        add(made, range(n * 10, n * 10 + 10), (DAY, NEXT_DAY)[n % 2])
    return made


def without_digests(lake: ParquetLake) -> None:
    """Make the commits those of a version that kept no SHA-256."""
    for number in lake.commit_numbers():
        commit = json.loads(lake.commit_path(number).read_text())
        for file in commit["files"]:
            del file["sha256"]
        lake.commit_path(number).write_text(json.dumps(commit))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cannot be compacted": lambda path: path.write_bytes(path.read_bytes()[:-10]),
    "does not have the rows that were committed": lambda path: pq.write_table(
        pq.read_table(path, partitioning=None).slice(1), path
    ),
}


@pytest.mark.parametrize("problem", DAMAGE)
def test_a_damaged_file_without_a_digest_is_not_merged(
    made: ParquetLake, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    without_digests(made)
    DAMAGE[problem](made.files("archive")[1])

    assert compact(made) == 1

    said = capsys.readouterr().err
    assert f"archive/{DAY} {problem}" in said
    assert said.endswith("see with verify what is damaged.\n")
    assert said.count("\n") == 1
    assert len(made.files("archive")) == 6


def test_days_that_were_removed_are_left_out(made: ParquetLake, capsys: pytest.CaptureFixture[str]) -> None:
    rmtree(made.path / "archive" / DAY)

    assert compact(made) == 0

    assert "Merged 3 files into 1;" in capsys.readouterr().out
    assert [path.parent.name for path in made.files("archive")] == [NEXT_DAY]
    assert made.files("archive", [date(2026, 3, 14)]) == []
