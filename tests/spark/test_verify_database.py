"""Verify beside the database: which rows differ, and which remedy is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.lake import Lake
from tests.spark.rows import DAY
from tests.spark.test_verify import first_file


def test_as_many_other_rows_are_a_difference(verify: Any, database: psycopg.Connection[Any]) -> None:
    [first] = database.execute("SELECT min(id) FROM pgqueue_archived_message").fetchone()
    database.execute("UPDATE pgqueue_archived_message SET id = id + 100000 WHERE id = %s", [first])

    status, said = verify()

    assert status == 1
    both = f"archive of {DAY}: the lake has 150 rows, the database 150"
    assert f"{both}: the lake lacks 1 of these." in said
    assert f"{both}, which does not have 1 of these." in said
    assert "pgqueue lake erase" in said


def test_rows_that_the_retention_of_a_queue_has_deleted_are_no_difference(
    verify: Any, database: psycopg.Connection[Any]
) -> None:
    database.execute("DELETE FROM pgqueue_archived_message WHERE id % 2 = 0")
    assert "which does not have 75 of these." in verify()[1]

    database.execute("INSERT INTO pgqueue_pruned (queue, day) VALUES ('default', %s)", [DAY])
    assert verify()[0] == 0


def test_rows_that_are_there_twice_are_a_difference(verify: Any, lake: Path) -> None:
    path = first_file(lake)
    with Lake.open(lake).writing() as writing:
        again = writing.stage("archive", f"day={DAY}")
        again.write_bytes(path.read_bytes())
        writing.commit("archive", "test", [writing.staged(again)])

    assert (
        f"archive of {DAY}: the lake has 250 rows, the database 150: 100 are in the lake more than once." in verify()[1]
    )


def test_rows_that_the_database_does_not_have_any_more_come_from_a_copy_or_are_given_up(
    verify: Any, lake: Path, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    path, copy = first_file(lake), tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    path.unlink()
    database.execute(f"DROP TABLE pgqueue_archived_message_{DAY:%Y%m%d}")

    status, said = verify()

    assert status == 1
    assert f"archive of {DAY}: the database does not have these rows any more. Copy the files to their places" in said
    assert "export --rescan" not in said, "it cannot help"

    path.write_bytes(copy.read_bytes())
    assert verify()[0] == 0
    path.unlink()
    assert f"Forgot 1 missing files, 100 rows: archive of {DAY}." in verify("--forget-missing")[1]
    status, said = verify("--forget-missing")
    assert (status, "Forgot 0 missing files, 0 rows." in said) == (0, True)
    assert Lake.open(lake).rows["archive"] == {f"{DAY}": 50}


def test_without_a_source_the_remedy_asks_for_the_database(
    verify: Any, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGQUEUE_SOURCE")
    first_file(lake).unlink()

    assert "Name the database with --source" in verify()[1]


def test_damaged_metrics_are_computed_anew_and_not_exported(verify: Any, lake: Path, dsn: str) -> None:
    assert main(["rollup", "--lake", str(lake)]) == 0
    Lake.open(lake).paths("metrics")[0].unlink()

    said = verify()[1]

    assert "`rollup --all`" in said
    assert "export --rescan" not in said
    assert "Forgot 0 missing files" in verify("--forget-missing")[1]
    assert main(["rollup", "--all", "--lake", str(lake)]) == 0
    assert verify()[0] == 0
