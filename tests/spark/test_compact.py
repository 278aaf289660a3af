"""Compaction: fewer files with the same rows, beside exports, and without news for rollups."""

from __future__ import annotations

import hashlib
import threading
from datetime import UTC, date, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.compact import find_work, replace_files
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.files import day_of
from django_pgqueue.spark.lake.rows import rewrite
from django_pgqueue.spark.lake.writing import lake_lock
from django_pgqueue.spark.transforms.rollup import find_touched
from django_pgqueue.spark.verify import find_problems

DAY, NEXT_DAY = "day=2026-03-14", "day=2026-03-15"
TODAY = f"day={datetime.now(UTC).date()}"
TARGET = 128_000_000


def add(lake: Lake, rows: range, partition: str = DAY, **columns: Any) -> None:
    """Commit a file as an export does."""
    with lake.writing() as writing:
        path = writing.stage("archive", partition)
        wanted = schema.arrow_schema("archive")
        # A digest cannot be compressed, so that the size of a file follows its rows.
        common = {"queue": "default", "created_at": datetime(2026, 3, 1, tzinfo=UTC)} | columns
        made = [{"id": n, "payload": digest(n)} | common for n in rows]
        pq.write_table(pa.Table.from_pylist(made, wanted), path)
        writing.commit("archive", "export", [writing.staged(path)], transaction=("pgqueue", rows.stop))


def digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


@pytest.fixture
def many(lake: Path) -> Lake:
    """A lake with ten small files of a day, and two of the next one."""
    made = Lake.open(lake, create=True)
    for n in range(10):
        add(made, range(n * 10, n * 10 + 10), attempts=n)
    for n in range(10, 12):
        add(made, range(n * 10, n * 10 + 10), NEXT_DAY)
    return made


def compact(lake: Lake, *options: str) -> int:
    return main(["compact", "--lake", str(lake.path), *options])


def rows(lake: Lake) -> list[dict[str, Any]]:
    return lake.delta("archive").to_pyarrow_table().sort_by("id").to_pylist()


def problems(lake: Lake) -> list[tuple[str, str]]:
    return list(find_problems(lake, lake.files("archive"), date.min))


def test_small_files_of_a_day_become_one_with_the_same_rows(many: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    before, horizon = rows(many), many.exported()

    assert compact(many) == 0

    assert "Merged 12 files into 2." in capsys.readouterr().out
    assert len(many.paths("archive")) == 2
    assert rows(many) == before
    assert many.exported() == horizon
    assert problems(many) == []
    assert compact(many) == 0
    assert "Merged 0 files into 0" in capsys.readouterr().out


def test_a_dry_run_says_it_and_changes_nothing(many: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    versions = many.versions

    assert compact(many, "--dry-run") == 0

    said = capsys.readouterr().out
    assert f"archive/{DAY}: 10 files" in said
    assert "Would merge 12 files." in said
    assert len(many.paths("archive")) == 12
    assert many.versions == versions


def test_young_days_and_large_files_stay(many: Lake) -> None:
    for n in range(3):
        add(many, range(n, n + 1), TODAY)
    add(many, range(1000, 1300), NEXT_DAY)
    [largest] = [file.path for file in many.files("archive") if file.rows == 300]
    size = (many.path / largest).stat().st_size

    compact(many, "--target-size", str(size))
    assert len(many.paths("archive", [day_of(TODAY)])) == 3
    assert (many.path / largest).exists()
    compact(many, "--older-than", "0")
    assert len(many.paths("archive", [day_of(TODAY)])) == 1


def test_files_are_about_as_large_as_asked_for(lake: Path) -> None:
    made = Lake.open(lake, create=True)
    for n in range(12):
        add(made, range(n * 2000, n * 2000 + 2000))
    before, sizes = rows(made), [path.stat().st_size for path in made.paths("archive")]
    target = 4 * max(sizes)

    compact(made, "--target-size", str(target))

    sizes = [path.stat().st_size for path in made.paths("archive")]
    assert 2 <= len(sizes) <= 6
    assert max(sizes) < 2 * target
    assert rows(made) == before
    assert problems(made) == []


def test_a_file_of_an_older_version_has_null_in_newer_columns(many: Lake) -> None:
    with many.writing() as writing:
        path = writing.stage("archive", DAY)
        pq.write_table(pa.table({"id": [500], "queue": ["old"]}), path)
        writing.commit("archive", "export", [writing.staged(path)])

    compact(many)

    assert rows(many)[-1] == dict.fromkeys(rows(many)[0]) | {"id": 500, "queue": "old", "day": date(2026, 3, 14)}
    assert len(rows(many)) == 121


def test_a_file_whose_content_was_changed_is_not_merged(many: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    path = many.paths("archive")[3]
    pq.write_table(pq.read_table(path, partitioning=None).slice(1), path)

    assert compact(many) == 1

    assert f"{path} is not as it was committed" in capsys.readouterr().err
    assert len(many.paths("archive")) == 12


def test_days_whose_files_are_missing_are_left_out(many: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    rmtree(many.path / "archive" / DAY)

    assert compact(many) == 0

    assert "Merged 2 files into 1." in capsys.readouterr().out
    assert [path.parent.name for path in many.paths("archive")] == [DAY] * 10 + [NEXT_DAY]


def test_files_that_an_export_adds_to_the_day_meanwhile_stay(many: Lake, tmp_path: Path) -> None:
    [(first, _), _] = find_work(many, TARGET, date(2026, 3, 20))
    merged = rewrite(many.path, first, folder_of(many))
    add(many, range(200, 210))
    before = rows(many)

    with many.writing() as writing:
        assert replace_files(many, writing, first, merged)

    assert len(many.paths("archive", [date(2026, 3, 14)])) == 2
    assert rows(many) == before
    assert many.rows["archive"]["2026-03-14"] == 110
    assert problems(many) == []


def test_a_day_that_is_written_anew_meanwhile_is_left(many: Lake) -> None:
    [(first, _), (second, _)] = find_work(many, TARGET, date(2026, 3, 20))
    merged = [rewrite(many.path, files, folder_of(many)) for files in (first, second)]
    with many.writing() as writing:
        path = writing.stage("archive", DAY)
        pq.write_table(pa.table({"id": [7]}), path)
        writing.commit("archive", "erase", [writing.staged(path)], many.files("archive", [day_of(DAY)]))

    with many.writing() as writing:
        assert not replace_files(many, writing, first, merged[0])
        assert replace_files(many, writing, second, merged[1])

    assert [row["id"] for row in rows(many)] == [7, *range(100, 120)]
    assert problems(many) == []


def folder_of(lake: Lake) -> Path:
    folder = lake.control / "compacting"
    folder.mkdir(exist_ok=True)
    return folder


def test_one_compaction_runs_at_a_time_and_removes_what_a_killed_one_left(
    many: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    left = folder_of(many) / "left.parquet"
    left.write_bytes(b"half a file")
    with lake_lock(many, "compacting.lock"):
        assert compact(many) == 1
    assert "is being compacted by another run" in capsys.readouterr().err
    assert left.exists()

    assert compact(many) == 0
    assert not left.exists()


def test_a_compaction_waits_for_a_run_that_has_the_lake(many: Lake) -> None:
    taken, done = threading.Event(), threading.Event()

    def export_for_a_while() -> None:
        with many.writing():
            taken.set()
            done.wait(4)

    run = threading.Thread(target=export_for_a_while)
    run.start()
    taken.wait()
    try:
        assert compact(many) == 0
    finally:
        done.set()
        run.join()

    assert len(many.paths("archive")) == 2


def test_a_compaction_is_no_news_for_rollups(many: Lake) -> None:
    everything = find_touched(many, everything=True).days
    touched = find_touched(many)
    touched.days.clear()
    with many.writing() as writing:
        writing.commit("metrics", "rollup", state=touched.state())
    compact(many)
    assert find_touched(many).days == set()
    assert find_touched(many, everything=True).days == everything
    add(many, range(900, 901), NEXT_DAY)
    assert find_touched(many).days == {date(2026, 3, 15), date(2026, 3, 1)}


def test_replaced_files_are_there_for_readers_of_earlier_versions_until_they_are_old(many: Lake) -> None:
    version, before = many.delta("archive").version(), rows(many)

    compact(many)
    assert many.delta("archive", version).to_pyarrow_table().sort_by("id").to_pylist() == before
    assert len([*many.path.rglob("archive/day=*/*.parquet")]) == 14
    compact(many, "--keep-days", "0")

    assert len([*many.path.rglob("archive/day=*/*.parquet")]) == 2
    assert rows(many) == before
    assert problems(many) == []
