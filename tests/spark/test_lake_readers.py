"""Programs that read the folder of a table, and do not know of commits: no row is missing or there twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.lake import ParquetLake, StagedFile
from django_pgqueue.spark.lake.history import committed_files
from django_pgqueue.spark.lake.writing import Writing
from django_pgqueue.spark.verify import find_problems
from tests.support.paths import REPOSITORY

DAY, NEXT_DAY = "day=2026-03-14", "day=2026-03-15"
BEFORE, AFTER = list(range(12)), list(range(100, 115))
COMMITS = 60
KILLED = 9
# A run that dies at the n-th step at which it changes what is in the folders: just before that step.
DRIVER = """
import os, sys
from pathlib import Path
from django_pgqueue.spark.lake import ParquetLake
from tests.spark.test_lake_readers import CHANGES, KILLED

change, lake, last = sys.argv[1], ParquetLake.open(sys.argv[2]), int(sys.argv[3])
steps = 0

def count(event, arguments):
    global steps
    if event in ("os.rename", "os.link", "os.remove", "ctypes.dlsym"):
        steps += 1
        if steps == last:
            os._exit(KILLED)

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
    writing.commit("test", stage(writing, ids, files), replace=[("archive", DAY)])


def replace_by_one(lake: ParquetLake) -> None:
    with lake.writing() as writing:
        replace(writing, AFTER, 1)


def add(lake: ParquetLake) -> None:
    with lake.writing() as writing:
        writing.commit("test", [*stage(writing, AFTER, 2), *stage(writing, AFTER, 1, NEXT_DAY)])


def compact(lake: ParquetLake) -> None:
    assert main(["compact", "--lake", str(lake.path)]) == 0


CHANGES: dict[str, Callable[[ParquetLake], None]] = {
    "add": add,
    "1 by 1": replace_by_one,
    "3 by 1": replace_by_one,
    "3 compact": compact,
}


def make_lake(path: Path, files: int) -> ParquetLake:
    lake = ParquetLake.open(path, create=True)
    with lake.writing() as writing:
        writing.commit("test", stage(writing, BEFORE, files))
    return lake


def read(folder: Path) -> list[int]:
    """Return the ids that a program finds that lists the folder of a table and reads the files, sorted."""
    found: list[int] = pq.read_table(folder, columns=["id"])["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("change", ["1 by 1", "3 by 1"])
def test_a_reader_sees_a_day_that_is_replaced_by_a_killed_run_before_or_after(change: str, tmp_path: Path) -> None:
    seen = [folder for _, folder, _ in killed_at_each_step(change, tmp_path)]

    assert all(folder in (BEFORE, AFTER) for folder in seen)
    assert seen[0] == BEFORE
    assert seen[-1] == AFTER


def test_a_reader_sees_each_row_once_whenever_a_compaction_is_killed(tmp_path: Path) -> None:
    steps = list(killed_at_each_step("3 compact", tmp_path))

    assert all(folder == settled == BEFORE for _, folder, settled in steps)
    assert {len(list((tmp_path / str(n + 1) / "archive" / DAY).iterdir())) for n in range(len(steps))} == {1, 3}


def test_a_reader_sees_all_rows_of_a_commit_of_a_killed_run_and_never_fewer_than_before(tmp_path: Path) -> None:
    new = sorted([*AFTER, *AFTER])
    steps = list(killed_at_each_step("add", tmp_path))

    for is_committed, folder, settled in steps:
        assert folder[: len(BEFORE)] == BEFORE
        assert set(folder[len(BEFORE) :]) <= {*AFTER}
        assert len(folder) <= len(settled) or not is_committed
        assert settled in (BEFORE, BEFORE + new)
        if is_committed:
            assert folder == BEFORE + new
    assert {is_committed for is_committed, _, _ in steps} == {False, True}


def killed_at_each_step(
    change: str, tmp_path: Path, read: Callable[[Path], list[int]] = read
) -> Iterator[tuple[bool, list[int], list[int]]]:
    """Yield what is seen after a kill at each step: whether there is a new commit file, the rows in the folder, and
    those after the next command."""
    for step in range(1, 100):
        path = tmp_path / str(step)
        lake = make_lake(path, int(change[0]) if change[0].isdigit() else 1)
        driver = [sys.executable, "-c", DRIVER, change, str(path), str(step)]
        status = subprocess.run(driver, check=False, cwd=REPOSITORY).returncode
        assert status in (0, KILLED)
        is_committed, folder = lake.commit_path(2).exists(), read(path / "archive")
        lake.settle()
        yield is_committed, folder, read(path / "archive")
        assert list(find_problems(lake, committed_files(lake), pd.Timestamp.min.date())) == []
        if status == 0:
            return
    raise AssertionError("the run never ended")


@pytest.mark.parametrize("files", [(1, 1), (3, 2)])
def test_a_reader_sees_a_day_once_while_it_is_replaced_again_and_again(files: tuple[int, int], lake: Path) -> None:
    made = make_lake(lake, files[0])
    with ThreadPoolExecutor(1) as pool, made.writing() as writing:
        written = pool.submit(replace_again_and_again, writing, files)
        seen = []
        while not written.done():
            try:
                seen.append(read(lake / "archive"))
            except FileNotFoundError:
                # The folder was exchanged after it was listed.
                continue
        written.result()

    assert len(seen) > 10
    assert all(rows in (BEFORE, AFTER) for rows in seen)


def replace_again_and_again(writing: Writing, files: tuple[int, int]) -> None:
    for number in range(COMMITS):
        replace(writing, (AFTER, BEFORE)[number % 2], files[(number + 1) % 2])


def test_a_system_that_cannot_exchange_folders_shows_no_gap(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_lake(lake, 3)
    monkeypatch.setattr("ctypes.CDLL", lambda *arguments, **options: object())

    with made.writing() as writing:
        replace(writing, AFTER, 2)

    assert read(lake / "archive") == AFTER
    assert list(find_problems(made, committed_files(made), pd.Timestamp.min.date())) == []


def test_the_folder_of_a_table_can_be_opened_and_that_of_all_tables_is_refused(lake: Path) -> None:
    made = make_lake(lake, 2)
    with made.writing() as writing:
        path = writing.stage("metrics", f"grain=hour/{DAY}")
        pq.write_table(pa.table({"queue": ["default"]}), path)
        writing.commit("test", [writing.staged(path)])

    frame: Any = pd.read_parquet(lake / "archive")
    assert sorted(frame["id"]) == BEFORE
    assert list(pd.read_parquet(lake / "metrics")["grain"]) == ["hour"]
    with pytest.raises(pa.ArrowInvalid, match=r"README\.txt"):
        pd.read_parquet(lake)
    assert "Open one of them" in (lake / "README.txt").read_text()
