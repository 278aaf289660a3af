"""Compaction of a lake that lacks files, or has damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark.lake import Lake
from tests.spark.test_compact import DAY, NEXT_DAY, add, compact


@pytest.fixture
def made(lake: Path) -> Lake:
    """A lake with three small files on each of two days."""
    made = Lake.open(lake, create=True)
    for n in range(6):
        add(made, range(n * 10, n * 10 + 10), (DAY, NEXT_DAY)[n % 2])
    return made


DAMAGE: dict[str, Callable[[Path], object]] = {
    "is not as it was committed": lambda path: path.write_bytes(path.read_bytes()[:-10]),
    "is not as it was committed: ": lambda path: pq.write_table(pq.read_table(path, partitioning=None).slice(1), path),
}


@pytest.mark.parametrize("problem", DAMAGE)
def test_a_damaged_file_is_not_merged(made: Lake, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = made.paths("archive")[1]
    DAMAGE[problem](damaged)

    assert compact(made) == 1

    said = capsys.readouterr().err
    assert f"{damaged} {problem}" in said
    assert said.count("\n") == 1
    assert len(made.paths("archive")) == 6


def test_days_whose_files_are_missing_are_left_out(made: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    rmtree(made.path / "archive" / DAY)

    assert compact(made) == 0

    assert "Merged 3 files into 1." in capsys.readouterr().out
    assert [path.parent.name for path in made.paths("archive")] == [DAY] * 3 + [NEXT_DAY]
