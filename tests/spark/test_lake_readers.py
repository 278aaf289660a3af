"""Readers of the tables, which know nothing of this package: no row is missing or there twice, whatever is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.lake import Lake, StagedFile
from django_pgqueue.spark.lake.writing import Writing, vacuum
from django_pgqueue.spark.verify import find_problems
from tests.support.paths import REPOSITORY

DAY, NEXT_DAY = "day=2026-03-14", "day=2026-03-15"
BEFORE, AFTER = list(range(12)), list(range(100, 115))
COMMITS = 60
KILLED = 9
# A run that dies at the n-th step at which it changes what is in the folders: just before that step. A commit is two
# steps: it dies before it, or right after.
DRIVER = """
import os, sys
from deltalake import DeltaTable
from django_pgqueue.spark.lake import Lake
from tests.spark.test_lake_readers import CHANGES, KILLED

change, lake, last = sys.argv[1], Lake.open(sys.argv[2]), int(sys.argv[3])
steps = 0

def count(event, arguments=()):
    global steps
    if event in ("os.rename", "os.link", "os.remove", "shutil.rmtree", "commit"):
        steps += 1
        if steps == last:
            os._exit(KILLED)

def counted(self, *arguments, **options):
    count("commit")
    commit(self, *arguments, **options)
    count("commit")

commit, DeltaTable.create_write_transaction = DeltaTable.create_write_transaction, counted
sys.addaudithook(count)
CHANGES[change](lake)
"""


def stage(writing: Writing, ids: list[int], files: int, partition: str = DAY) -> Iterator[StagedFile]:
    """Stage these rows of the archive in so many files."""
    for number in range(files):
        path = writing.stage("archive", partition)
        rows = [{"id": each} for each in ids[number::files]]
        pq.write_table(pa.Table.from_pylist(rows, schema.arrow_schema("archive")), path)
        yield writing.staged(path)


def replace(writing: Writing, ids: list[int], files: int) -> None:
    writing.commit("archive", "test", stage(writing, ids, files), writing.lake.files("archive"))


def replace_by_one(lake: Lake) -> None:
    with lake.writing() as writing:
        replace(writing, AFTER, 1)


def add(lake: Lake) -> None:
    with lake.writing() as writing:
        writing.commit("archive", "test", [*stage(writing, AFTER, 2), *stage(writing, AFTER, 1, NEXT_DAY)])


def compact(lake: Lake) -> None:
    assert main(["compact", "--lake", str(lake.path)]) == 0


CHANGES: dict[str, Callable[[Lake], None]] = {
    "add": add,
    "1 by 1": replace_by_one,
    "3 by 1": replace_by_one,
    "3 compact": compact,
}


def make_lake(path: Path, files: int) -> Lake:
    lake = Lake.open(path, create=True)
    with lake.writing() as writing:
        writing.commit("archive", "test", stage(writing, BEFORE, files))
    return lake


def read(folder: Path) -> list[int]:
    """Return the ids that a reader of Delta finds, sorted."""
    found: list[int] = DeltaTable(folder).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    return sorted(found)


RESULTS = {
    "add": sorted([*BEFORE, *AFTER, *AFTER]),
    "1 by 1": AFTER,
    "3 by 1": AFTER,
    "3 compact": BEFORE,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_reader_sees_what_was_before_or_after_wherever_a_run_is_killed(change: str, tmp_path: Path) -> None:
    seen = list(killed_at_each_step(change, tmp_path))

    assert len(seen) > 5
    assert all(rows in (BEFORE, RESULTS[change]) for rows in seen)
    assert (seen[0], seen[-1]) == (BEFORE, RESULTS[change])


def killed_at_each_step(change: str, tmp_path: Path) -> Iterator[list[int]]:
    """Yield what is seen after a kill at each step. The next run leaves a whole lake, without more files."""
    for step in range(1, 100):
        path = tmp_path / str(step)
        lake = make_lake(path, int(change[0]) if change[0].isdigit() else 1)
        driver = [sys.executable, "-c", DRIVER, change, str(path), str(step)]
        status = subprocess.run(driver, check=False, cwd=REPOSITORY).returncode
        assert status in (0, KILLED)
        seen = read(path / "archive")
        yield seen
        with lake.writing():
            pass
        assert read(path / "archive") == seen
        assert list(find_problems(lake, lake.files("archive"), date.min)) == []
        vacuum(lake, "archive", 0)
        assert len([*path.glob("archive/day=*/*")]) == len(lake.files("archive"))
        if status == 0:
            return
    raise AssertionError("the run never ended")


def replace_again_and_again(writing: Writing, files: tuple[int, int]) -> None:
    for number in range(COMMITS):
        replace(writing, (AFTER, BEFORE)[number % 2], files[(number + 1) % 2])
