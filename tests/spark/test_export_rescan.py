"""A rescan repairs a lake that lost files, or whose database is a standby that lacks its last commits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from shutil import rmtree

import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.task import ExportOptions
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from tests.spark.object_store import ObjectStore
from tests.spark.published import publish
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.test_export import ARCHIVE, LETTERS, expected, ids, lake_rows
from tests.support.sessions import Session as Database

NEXT_DAY = DAY + timedelta(days=1)
RESCAN = ExportOptions(rescan=True)


@pytest.fixture
def exported(source: Source, database: Database, lake: Path) -> Lake:
    """A lake with two files of messages and of dead letters on one day, and one of each on the next."""
    for day in (DAY, NEXT_DAY, DAY):
        fill_archive(database, 20, day)
        fill_dead_letters(database, 5, day)
        export(source, lake)
    return Lake.open(lake)


@pytest.fixture
def verify(dsn: str, lake: Path) -> Callable[[], int]:
    return lambda: main(["verify", "--lake", str(lake), "--source", dsn])


def test_a_lake_is_whole_after_lost_files_were_written_anew(
    exported: Lake,
    source: Source,
    database: Database,
    verify: Callable[[], int],
    store: ObjectStore,
    prefix: str,
) -> None:
    for table in ("archive", "dead_letter"):
        exported.paths(table, [DAY])[0].unlink()
        exported.paths(table, [NEXT_DAY])[0].unlink()
    assert verify() == 1

    summary = export(source, exported.path, RESCAN)

    assert (summary.rows["archive"], summary.rows["dead_letter"]) == (40, 10)
    assert verify() == 0
    assert ids(exported.path) == expected(database)
    assert ids(exported.path, "dead_letter") == expected(database, LETTERS)
    rows = exported.rows
    assert rows["archive"] == {DAY.isoformat(): 40, NEXT_DAY.isoformat(): 20}
    assert rows["dead_letter"] == {DAY.isoformat(): 10, NEXT_DAY.isoformat(): 5}
    assert export(source, exported.path, RESCAN).files == 0
    assert publish(exported, store, prefix) == 0


def test_the_files_of_a_day_that_is_empty_in_the_database_stay_as_they_are(
    exported: Lake, source: Source, database: Database, capsys: pytest.CaptureFixture[str], dsn: str
) -> None:
    """One is missing and one is damaged. A copy can be brought back, as long as the commits know them."""
    missing, damaged = exported.paths("archive", [DAY])
    missing.unlink()
    damaged.write_bytes(b"damaged")
    database.execute(f"DELETE FROM pgqueue_archived_message_{DAY:%Y%m%d}")

    summary = export(source, exported.path, RESCAN)

    assert (summary.losses, damaged.exists()) == ((), True)
    assert {missing, damaged} <= {*exported.paths("archive")}
    assert main(["verify", "--lake", str(exported.path), "--source", dsn]) == 1
    assert f"archive of {DAY}: the database does not have these rows any more." in capsys.readouterr().err


def test_dead_letters_that_the_database_has_deleted_stay_in_the_lake(
    exported: Lake, source: Source, database: Database
) -> None:
    kept = ids(exported.path, "dead_letter")
    lost, other = exported.paths("dead_letter", [DAY])
    database.execute(f"DELETE FROM {LETTERS} WHERE id = (SELECT max(id) FROM {LETTERS})")
    lost.unlink()

    export(source, exported.path, RESCAN)

    assert other.exists()
    assert ids(exported.path, "dead_letter") == kept


def test_as_many_other_rows_are_not_taken_for_the_same(
    exported: Lake, source: Source, database: Database, verify: Callable[[], int]
) -> None:
    """Retention has deleted 20 of the 40 rows of a day, and the lake has lost a file with 20 others."""
    first, second = (pq.read_table(path)["id"].to_pylist() for path in exported.paths("archive", [DAY]))
    database.execute(f"DELETE FROM {ARCHIVE} WHERE id = ANY (%s)", [first])
    database.execute("INSERT INTO pgqueue_pruned (queue, day) VALUES ('default', %s)", [DAY])
    exported.paths("archive", [DAY])[1].unlink()
    assert verify() == 1

    assert export(source, exported.path, RESCAN).rows["archive"] == 20

    assert ids(exported.path) == sorted([*first, *expected(database)])
    assert {*second} <= {*ids(exported.path)}
    assert verify() == 0


@pytest.mark.parametrize("table", [ARCHIVE, LETTERS])
def test_ids_that_the_server_gave_anew_after_a_failover_are_replaced(
    exported: Lake, source: Source, database: Database, verify: Callable[[], int], table: str
) -> None:
    """As many rows, with the same ids and transactions: other messages, of other times."""
    time = {ARCHIVE: "archived_at", LETTERS: "dead_at"}[table]
    lost = [row[0] for row in database.execute(f"SELECT id FROM {table} ORDER BY id DESC LIMIT 3")]
    database.execute(
        f"UPDATE {table} SET {time} = {time} + interval '1 microsecond', handler = 'new' WHERE id = ANY (%s)", [lost]
    )
    assert verify() == 1

    summary = export(source, exported.path, RESCAN)

    name = {ARCHIVE: "archive", LETTERS: "dead_letter"}[table]
    assert summary.rows[name] == 3
    assert summary.repaired == (DAY,)
    assert ids(exported.path, name) == expected(database, table)
    handlers = {row["id"]: row["handler"] for row in lake_rows(exported.path, name)}
    assert {id_ for id_, handler in handlers.items() if handler == "new"} == {*lost}
    assert verify() == 0
    assert export(source, exported.path, RESCAN).files == 0


def test_rows_that_only_the_lake_has_stay_when_others_are_added(
    exported: Lake, source: Source, database: Database
) -> None:
    """A row that was deleted by hand; a row that an export should have brought; a file that cannot be read."""
    kept, damaged = exported.paths("archive", [DAY])
    [deleted, *_] = pq.read_table(kept)["id"].to_pylist()
    database.execute(f"DELETE FROM {ARCHIVE} WHERE id = %s", [deleted])
    fill_archive(database, 1, xid="'3'::xid8")
    damaged.write_bytes(b"damaged")

    summary = export(source, exported.path, RESCAN)

    assert summary.rows["archive"] == 21
    assert kept.exists()
    assert damaged not in exported.paths("archive")
    assert ids(exported.path) == sorted([deleted, *expected(database)])
    assert exported.rows["archive"][DAY.isoformat()] == 41


def test_a_day_that_was_closed_before_its_repair_has_each_row_once(
    exported: Lake, source: Source, database: Database
) -> None:
    """Late rows of a closed day are below the horizon of the last export, and above that of the day."""
    export(source, exported.path)
    fill_archive(database, 1, NEXT_DAY)
    [late] = database.execute(f"SELECT max(xid::text::bigint) FROM {ARCHIVE}").fetchone()
    closed = {**exported.state["closed"][DAY.isoformat()]}
    export(source, exported.path)
    fill_archive(database, 2, xid=f"'{late}'::xid8")
    assert closed["xid"] <= late < exported.exported()

    export(source, exported.path, RESCAN)
    fill_archive(database, 1000)
    export(source, exported.path)

    assert ids(exported.path) == expected(database)


def test_rows_of_a_missing_file_that_the_database_has_deleted_are_reported(
    exported: Lake, source: Source, database: Database
) -> None:
    lost = exported.paths("dead_letter", [DAY])[0]
    [gone, *_] = pq.read_table(lost)["id"].to_pylist()
    database.execute(f"DELETE FROM {LETTERS} WHERE id = %s", [gone])
    lost.unlink()

    [text] = export(source, exported.path, RESCAN).losses
    assert text.startswith(f"dead letters of {DAY}: 1 of the rows in missing or damaged files is not in the database")
    assert export(source, exported.path, RESCAN).losses == ()


def test_a_damaged_file_of_dead_letters_is_named(exported: Lake, source: Source, lake: Path) -> None:
    damaged = exported.paths("dead_letter", [DAY])[0]
    damaged.write_bytes(b"damaged")

    with pytest.raises(Exception, match=f"{damaged} cannot be read, .* or remove it and run export --rescan"):
        export(source, lake, RESCAN)


def test_the_days_since_a_failover_are_written_anew_when_they_were_removed(
    exported: Lake, source: Source, database: Database, verify: Callable[[], int]
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
