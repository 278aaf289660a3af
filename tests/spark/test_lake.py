"""The lake: what is committed is there once, whatever was killed in between."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.lake.commit import NOTHING, Commit
from django_pgqueue.spark.lake.durable import create_json
from django_pgqueue.spark.lake.placing import place
from django_pgqueue.spark.lake.writing import Writing

DAY = "day=2026-03-14"


def write(writing: Writing, rows: int, table: str = "archive", partition: str = DAY) -> Any:
    path = writing.stage(table, partition)
    columns = schema.arrow_schema(table)
    pq.write_table(pa.Table.from_pylist([{"id": n} for n in range(rows)], columns), path)
    return writing.staged(path)


def commit(lake: ParquetLake, rows: int, **options: Any) -> None:
    with lake.writing() as writing:
        writing.commit("test", [write(writing, rows)], **options)


def rows(lake: ParquetLake, table: str = "archive") -> int:
    return sum(pq.read_metadata(path).num_rows for path in lake.files(table))


def late_run(lake: ParquetLake, newest: Commit = NOTHING) -> Writing:
    """A run that looked at the lake when this was the newest commit."""

    class Late(ParquetLake):
        head = newest

    run = Writing(Late(lake.path))
    run.folder.mkdir()
    return run


def test_committed_files_are_in_the_lake(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)

    commit(made, 3, state={"exported_xid": 7})

    assert made.files("archive") == [lake / "archive" / DAY / "00000001-0.parquet"]
    assert made.state == {"exported_xid": 7, "rows": {"archive": {"2026-03-14": 3}}}
    assert ParquetLake.open(lake).head.rows == 3


def test_the_newest_commit_carries_all_of_the_state(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    commit(made, 3, state={"exported_xid": 7})

    commit(made, 2, state={"rolled_up": 1})

    assert made.state == {"exported_xid": 7, "rolled_up": 1, "rows": {"archive": {"2026-03-14": 5}}}


def test_files_that_are_not_committed_are_not_in_the_lake_and_are_removed(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    with made.writing() as writing:
        write(writing, 3)
    left = made.staging / "of-a-killed-run"
    left.mkdir()
    (left / "half.parquet").write_bytes(b"PAR1")

    commit(made, 1)

    assert rows(made) == 1
    assert list(made.staging.iterdir()) == []


def test_a_run_killed_between_its_commit_and_the_moves_is_finished_by_the_next(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    commit(made, 5)
    commit_and_die(made, 3, replace=[("archive", DAY)])
    assert len(list((lake / "archive" / DAY).glob("*"))) == 1

    commit(made, 1)

    assert rows(made) == 3 + 1
    assert made.state["rows"] == {"archive": {"2026-03-14": 4}}


def test_a_reader_sees_a_commit_whose_files_are_not_moved_yet(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    commit(made, 5)
    commit_and_die(made, 3, replace=[("archive", DAY)])

    assert rows(ParquetLake.open(lake)) == 3


def commit_and_die(lake: ParquetLake, count: int, **options: Any) -> None:
    """Leave what a process leaves that dies right after its commit: no file is moved, none is removed."""
    before = {path: path.read_bytes() for path in lake.files("archive")}
    commit(lake, count, **options)
    for file in lake.head.files:
        (lake.path / file.staged).parent.mkdir(parents=True)
        (lake.path / file.path).rename(lake.path / file.staged)
    for path, content in before.items():
        path.write_bytes(content)


def test_finishing_a_commit_again_changes_nothing(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    commit(made, 5)
    before = made.files("archive")

    place(made, made.head)

    assert made.files("archive") == before


def test_a_partition_can_be_replaced(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    commit(made, 5)
    with made.writing() as writing:
        other = write(writing, 2, partition="day=2026-03-15")
        writing.commit("test", [write(writing, 3), other], replace=[("archive", DAY)])

    assert [path.name for path in made.files("archive")] == ["00000002-0.parquet", "00000002-1.parquet"]
    assert made.state["rows"] == {"archive": {"2026-03-14": 3, "2026-03-15": 2}}


def test_two_runs_cannot_write_at_the_same_time(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)

    with made.writing(), pytest.raises(PipelineError, match="written by another run"), ParquetLake.open(lake).writing():
        pass


def test_a_run_that_lost_its_lock_cannot_commit_over_another_one(lake: Path) -> None:
    """Where flock does not hold, on some network file systems, the name of the commit decides."""
    made = ParquetLake.open(lake, create=True)
    slow, quick = late_run(made), late_run(made)
    staged = write(slow, 3)
    quick.commit("test", [write(quick, 1)])

    with pytest.raises(PipelineError, match="committed"):
        slow.commit("test", [staged])
    assert rows(made) == 1


def test_of_two_runs_that_decide_on_the_same_commit_one_fails(lake: Path) -> None:
    """Neither has placed its files when the other looks: the link to the name of the prepared commit decides."""
    made = ParquetLake.open(lake, create=True)
    late, other = late_run(made), Commit(1, "test", "2026-03-14T00:00:00+00:00")
    staged = write(late, 3)
    create_json(made.prepared_path(1), other.as_json(), made.control / ".commit-other")

    with pytest.raises(PipelineError, match="Another run committed"):
        late.commit("test", [staged])

    assert made.commit(1) == other
    assert not list(made.control.glob(".commit-*"))


def test_files_that_stay_in_a_replaced_partition_are_never_away(lake: Path) -> None:
    """They are linked to the folder that takes the place of theirs, and not moved: a run may fail before it decides."""
    made = ParquetLake.open(lake, create=True)
    commit(made, 5)
    commit(made, 3)
    [stays, goes], seen = made.files("archive"), made.head
    with made.writing() as writing:
        writing.commit("test")
    late = late_run(made, seen)
    staged = write(late, 2)

    with pytest.raises(PipelineError, match="Another run committed"):
        late.commit("test", [staged], replace=[("archive", DAY)], keep={stays.relative_to(lake).as_posix()})

    assert made.files("archive") == [stays, goes]


def test_a_file_that_is_not_whole_is_not_committed(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    with made.writing() as writing:
        staged = write(writing, 100)
        staged.path.write_bytes(staged.path.read_bytes()[:-10])
        with pytest.raises(PipelineError, match="should have"):
            writing.commit("test", [staged])
        with pytest.raises(PipelineError, match="not written whole"):
            writing.staged(staged.path)
    assert made.head.number == 0


def test_days_select_files(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    commit(made, 1)
    with made.writing() as writing:
        writing.commit("test", [write(writing, 1, "metrics", "grain=hour/day=2026-03-15")])

    assert made.files("archive", [date(2026, 3, 15)]) == []
    assert len(made.files("archive", [date(2026, 3, 14)])) == 1
    assert len(made.files("metrics", [date(2026, 3, 15)])) == 1
    assert made.partitions("metrics") == ["grain=hour/day=2026-03-15"]


@pytest.mark.parametrize("column", ["xid", "started_at"])
def test_spark_reads_a_file_that_lacks_a_newer_column_as_null(spark: Any, lake: Path, column: str) -> None:
    made = ParquetLake.open(lake, create=True)
    commit(made, 1)
    with made.writing() as writing:
        path = writing.stage("archive", DAY)
        old = schema.arrow_schema("archive").remove(schema.arrow_schema("archive").get_field_index(column))
        pq.write_table(pa.Table.from_pylist([{"id": 7}], old), path)
        writing.commit("test", [writing.staged(path)])

    read = made.read(spark, "archive").filter("id = 7").toArrow().to_pylist()

    assert read[0][column] is None
    assert read[0]["day"] == date(2026, 3, 14)
    assert made.read(spark, "archive").count() == 2


def test_spark_reads_a_table_that_has_no_files(spark: Any, lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)

    for table in schema.TABLES:
        frame = made.read(spark, table)
        assert frame.count() == 0
        assert frame.columns == [*schema.arrow_schema(table).names, "day"]


def test_a_lake_of_a_newer_version_is_refused(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    described = json.loads((made.control / "lake.json").read_text())
    (made.control / "lake.json").write_text(json.dumps(described | {"format": schema.FORMAT + 1, "later": 1}))

    with pytest.raises(PipelineError, match="format 2, this version knows 1"):
        ParquetLake.open(lake)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}'])
def test_a_damaged_description_is_one_clear_line(lake: Path, content: str) -> None:
    made = ParquetLake.open(lake, create=True)
    (made.control / "lake.json").write_text(content)

    with pytest.raises(PipelineError, match=r"lake\.json cannot be read"):
        ParquetLake.open(lake)


def test_a_damaged_commit_is_one_clear_line(lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    commit(made, 1)
    made.commit_path(1).write_text("{}")

    with pytest.raises(PipelineError, match=r"00000001\.json cannot be read"):
        made.head  # noqa: B018


def test_a_lake_is_not_made_where_its_parent_is_missing_or_other_files_are(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="does not exist"):
        ParquetLake.open(tmp_path / "no" / "lake", create=True)
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(PipelineError, match="holds other files"):
        ParquetLake.open(tmp_path, create=True)
    with pytest.raises(PipelineError, match="There is no lake"):
        ParquetLake.open(tmp_path / "nothing")
    with pytest.raises(PipelineError, match="object stores"):
        ParquetLake.open("s3://bucket/lake", create=True)


def test_a_lake_whose_making_was_killed_is_made_again(lake: Path) -> None:
    (lake / "_pgqueue" / "commits").mkdir(parents=True)
    (lake / "_pgqueue" / ".lake-1234").touch()

    assert ParquetLake.open(lake, create=True).head.number == 0
