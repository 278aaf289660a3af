"""The lake: what is committed is there once, whatever was killed in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.files import HORIZON
from django_pgqueue.spark.lake.writing import Writing

DAY = "day=2026-03-14"


def write(writing: Writing, rows: int, table: str = "archive", partition: str = DAY) -> Any:
    path = writing.stage(table, partition)
    columns = schema.arrow_schema(table)
    pq.write_table(pa.Table.from_pylist([{columns.names[1]: None}] * rows, columns), path)
    return writing.staged(path)


def commit(lake: Lake, rows: int, **options: Any) -> None:
    with lake.writing() as writing:
        writing.commit("archive", "test", [write(writing, rows)], **options)


def rows(lake: Lake, table: str = "archive") -> int:
    return sum(pq.read_metadata(path).num_rows for path in lake.paths(table))


@pytest.fixture
def made(lake: Path) -> Lake:
    return Lake.open(lake, create=True)


def test_committed_files_are_in_the_lake(made: Lake) -> None:
    commit(made, 3, transaction=(HORIZON, 7), state={"exported_at": "now"})

    [file] = made.files("archive")
    assert made.path / file.path == next(made.path.glob(f"archive/{DAY}/*.parquet"))
    assert (file.rows, file.day) == (3, date(2026, 3, 14))
    assert (made.exported(), made.state) == (7, {"exported_at": "now"})
    assert made.rows == {"archive": {"2026-03-14": 3}}


def test_the_newest_state_is_found_behind_other_versions(made: Lake) -> None:
    commit(made, 1, state={"n": 1})
    for _ in range(25):
        with made.writing() as writing:
            writing.commit("archive", "other")

    assert made.state == {"n": 1}


def test_files_that_are_not_committed_are_not_in_the_lake_and_are_removed(made: Lake) -> None:
    with made.writing() as writing:
        write(writing, 3)
    left = made.staging / "of-a-killed-run"
    left.mkdir()
    (left / "half.parquet").write_bytes(b"PAR1")

    commit(made, 1)

    assert rows(made) == 1
    assert list(made.staging.iterdir()) == []


KILLED = """
import os, sys
from deltalake import DeltaTable
from django_pgqueue.spark.lake import Lake
from tests.spark.test_lake import commit

def die(*_, **__):
    if sys.argv[2] == "after":
        real(*_, **__)
    os.kill(os.getpid(), 9)

real, DeltaTable.create_write_transaction = DeltaTable.create_write_transaction, die
made = Lake.open(sys.argv[1])
commit(made, 3)
"""


@pytest.mark.parametrize(("moment", "more"), [("before", 0), ("after", 3)])
def test_a_run_that_is_killed_around_its_commit_leaves_all_or_nothing(made: Lake, moment: str, more: int) -> None:
    commit(made, 5)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(made.path), moment], env={**os.environ})
    assert killed.returncode == -signal.SIGKILL
    assert rows(made) == 5 + more
    assert len(list((made.path / "archive" / DAY).glob("*"))) == 2, "placed, and not yet known or known"

    commit(made, 1)

    assert rows(made) == 6 + more
    assert len(list((made.path / "archive" / DAY).glob("*"))) == len(made.files("archive"))
    assert list(made.staging.iterdir()) == []


def test_only_one_run_writes_at_a_time(made: Lake) -> None:
    with made.writing(), pytest.raises(PipelineError, match=rf"is being written by another run \(pid {os.getpid()}\)"):
        commit(made, 1)


def test_of_two_runs_on_two_machines_one_commits_an_export(made: Lake) -> None:
    """The lock is of one machine. The version that a run has read decides everywhere."""
    slow, quick = Writing(made), Writing(made)
    for run in (slow, quick):
        run.table("archive")
        run.folder.mkdir()
    staged = write(slow, 3)
    quick.commit("archive", "export", [write(quick, 1)], transaction=(HORIZON, 5))

    with pytest.raises(PipelineError, match="Another run committed"):
        slow.commit("archive", "export", [staged], transaction=(HORIZON, 5))

    assert rows(made) == 1
    commit(made, 1)
    assert len(list((made.path / "archive" / DAY).glob("*"))) == 2, "what was refused is removed"


def test_a_file_that_is_not_whole_is_not_committed(made: Lake) -> None:
    with made.writing() as writing:
        staged = write(writing, 100)
        staged.path.write_bytes(staged.path.read_bytes()[:-10])
        with pytest.raises(PipelineError, match="should have"):
            writing.commit("archive", "test", [staged])
        with pytest.raises(PipelineError, match="not written whole"):
            writing.staged(staged.path)
    assert made.files("archive") == []


def test_spark_reads_a_file_that_lacks_a_newer_column_as_null(spark: Any, made: Lake) -> None:
    commit(made, 1)
    with made.writing() as writing:
        path = writing.stage("archive", DAY)
        old = schema.arrow_schema("archive").remove(schema.arrow_schema("archive").get_field_index("started_at"))
        pq.write_table(pa.Table.from_pylist([{"id": 7}], old), path)
        writing.commit("archive", "test", [writing.staged(path)])

    read = made.read(spark, "archive").filter("id = 7").toArrow().to_pylist()

    assert read[0]["started_at"] is None
    assert read[0]["day"] == date(2026, 3, 14)
    assert made.read(spark, "archive").count() == 2


def test_a_table_of_an_earlier_version_gets_its_newer_columns(made: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(made, 2)
    later = [*schema.TABLES["archive"], schema.Column("mood", schema.TEXT)]
    monkeypatch.setitem(schema.TABLES, "archive", later)

    commit(made, 3)

    assert made.delta("archive").to_pyarrow_table().column("mood").null_count == 5


def test_spark_reads_a_table_that_has_no_files(spark: Any, made: Lake) -> None:
    for table in schema.TABLES:
        frame = made.read(spark, table)
        assert frame.count() == 0
        assert frame.columns == [*schema.arrow_schema(table).names, "day"]


@pytest.mark.parametrize("found", [1, 3])
def test_a_lake_of_another_version_is_refused(made: Lake, found: int) -> None:
    described = json.loads((made.control / "lake.json").read_text())
    (made.control / "lake.json").write_text(json.dumps(described | {"format": found, "later": 1}))

    with pytest.raises(PipelineError, match=f"format {found}, this version knows 2"):
        Lake.open(made.path)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}'])
def test_a_damaged_description_is_one_clear_line(made: Lake, content: str) -> None:
    (made.control / "lake.json").write_text(content)

    with pytest.raises(PipelineError, match=r"lake\.json cannot be read"):
        Lake.open(made.path)


def test_a_damaged_log_is_one_clear_line(made: Lake) -> None:
    commit(made, 1)
    (made.path / "archive" / "_delta_log" / f"{1:020}.json").write_text("{")

    with pytest.raises(PipelineError, match=r"cannot be read .* restore it from a backup") as raised:
        made.files("archive")
    assert "\n" not in str(raised.value)


def test_a_lake_is_not_made_where_its_parent_is_missing_or_other_files_are(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="does not exist"):
        Lake.open(tmp_path / "no" / "lake", create=True)
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(PipelineError, match="holds other files"):
        Lake.open(tmp_path, create=True)
    (tmp_path / "lake" / "archive").mkdir(parents=True)
    (tmp_path / "lake" / "archive" / "1.parquet").touch()
    with pytest.raises(PipelineError, match="belong to no lake"):
        Lake.open(tmp_path / "lake", create=True)
    with pytest.raises(PipelineError, match="There is no lake"):
        Lake.open(tmp_path / "nothing")
    with pytest.raises(PipelineError, match="object stores"):
        Lake.open("s3://bucket/lake", create=True)


def test_a_lake_whose_making_was_killed_is_made_again(made: Lake) -> None:
    (made.control / "lake.json").unlink()
    (made.control / ".lake-1234").touch()

    assert Lake.open(made.path, create=True).files("archive") == []
