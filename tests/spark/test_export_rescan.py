"""A rescan repairs a lake that lost files, or whose database is a standby that lacks its last commits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from shutil import rmtree

import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.options import ExportOptions
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.lake.history import committed_files
from django_pgqueue.spark.source import Source
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.test_export import ARCHIVE, LETTERS, expected, ids
from tests.support.sessions import Session as Database

NEXT_DAY = DAY + timedelta(days=1)
RESCAN = ExportOptions(rescan=True)


@pytest.fixture
def exported(source: Source, database: Database, lake: Path) -> ParquetLake:
    """A lake with two files of messages and of dead letters on one day, and one of each on the next."""
    for day in (DAY, NEXT_DAY, DAY):
        fill_archive(database, 20, day)
        fill_dead_letters(database, 5, day)
        export(source, lake)
    return ParquetLake.open(lake)


@pytest.fixture
def verify(dsn: str, lake: Path) -> Callable[[], int]:
    return lambda: main(["verify", "--lake", str(lake), "--source", dsn])


def test_a_lake_is_whole_after_lost_files_were_written_anew(
    exported: ParquetLake, source: Source, database: Database, verify: Callable[[], int], tmp_path: Path
) -> None:
    for table in ("archive", "dead_letter"):
        exported.files(table, [DAY])[0].unlink()
        exported.files(table, [NEXT_DAY])[0].unlink()
    assert verify() == 1

    summary = export(source, exported.path, RESCAN)

    assert (summary.rows["archive"], summary.rows["dead_letter"]) == (60, 10)
    assert verify() == 0
    assert ids(exported.path) == expected(database)
    assert ids(exported.path, "dead_letter") == expected(database, LETTERS)
    rows = exported.state["rows"]
    assert rows["archive"] == {DAY.isoformat(): 40, NEXT_DAY.isoformat(): 20}
    assert rows["dead_letter"] == {DAY.isoformat(): 10, NEXT_DAY.isoformat(): 5}
    assert export(source, exported.path, RESCAN).files == 0
    copy = (tmp_path / "copy").as_uri()
    assert main(["publish", "--lake", str(exported.path), "--to", copy]) == 0


def test_files_whose_rows_the_database_does_not_have_any_more_stay_missing(
    exported: ParquetLake, source: Source, database: Database, verify: Callable[[], int]
) -> None:
    exported.files("archive", [NEXT_DAY])[0].unlink()
    [lost] = [path for path in committed_files(exported) if not (exported.path / path).exists()]
    database.execute(f"DROP TABLE pgqueue_archived_message_{NEXT_DAY:%Y%m%d}")

    export(source, exported.path, RESCAN)

    assert lost in committed_files(exported)
    assert verify() == 1


def test_dead_letters_that_the_database_has_deleted_stay_in_the_lake(
    exported: ParquetLake, source: Source, database: Database
) -> None:
    kept = ids(exported.path, "dead_letter")
    lost, other = exported.files("dead_letter", [DAY])
    database.execute(f"DELETE FROM {LETTERS} WHERE id = (SELECT max(id) FROM {LETTERS})")
    lost.unlink()

    export(source, exported.path, RESCAN)

    assert other.exists()
    assert ids(exported.path, "dead_letter") == kept


def test_a_damaged_file_of_dead_letters_is_named(exported: ParquetLake, source: Source, lake: Path) -> None:
    damaged = exported.files("dead_letter", [DAY])[0]
    damaged.write_bytes(b"damaged")

    with pytest.raises(Exception, match=f"{damaged} cannot be read, .* or remove it and run export --rescan"):
        export(source, lake, RESCAN)


def test_the_days_since_a_failover_are_written_anew_when_they_were_removed(
    exported: ParquetLake, source: Source, database: Database, verify: Callable[[], int]
) -> None:
    """The new server lacks the last rows of the lake, and gave their transactions to others."""
    for table in (ARCHIVE, LETTERS):
        database.execute(f"DELETE FROM {table} WHERE id IN (SELECT t.id FROM {table} AS t ORDER BY t.id DESC LIMIT 4)")
    fill_archive(database, 4, xid="'3'::xid8")
    fill_dead_letters(database, 4, xid="'3'::xid8")
    export(source, exported.path)
    assert ids(exported.path) != expected(database)
    for table in ("archive", "dead_letter"):
        rmtree(exported.path / table / f"day={DAY}")

    export(source, exported.path, RESCAN)

    assert ids(exported.path) == expected(database)
    assert ids(exported.path, "dead_letter") == expected(database, LETTERS)
    assert verify() == 0


def test_a_lost_file_of_metrics_is_computed_anew(exported: ParquetLake, verify: Callable[[], int]) -> None:
    rollup = ["rollup", "--lake", str(exported.path)]
    assert main(rollup) == 0
    exported.files("metrics", [DAY])[0].unlink()
    assert verify() == 1

    assert main([*rollup, "--all"]) == 0

    assert verify() == 0
