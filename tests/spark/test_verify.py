"""Verify: says what is wrong with a lake, and nothing of one that is whole."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deltalake.transaction import AddAction

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.compact import compact, find_work
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.writing import vacuum
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.test_compact import add
from tests.spark.test_export_refusals import lose


def first_file(lake: Path) -> Path:
    return Lake.open(lake).paths("archive")[0]


def test_a_whole_lake_is_found_whole(verify: Any) -> None:
    status, said = verify()

    assert status == 0
    assert "4 files, 161 rows, 4 commits." in said
    assert "Compared with the database: 1 days" in said
    assert "The lake is whole." in said


def test_without_a_source_only_the_lake_is_looked_at(verify: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGQUEUE_SOURCE")

    status, said = verify()

    assert status == 0
    assert "Compared" not in said


def damage_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 0xFF
    path.write_bytes(content)


DAMAGE = {
    "is missing": Path.unlink,
    "bytes, committed were": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "its content is not that which was committed (SHA-256 differs)": damage_a_byte,
    "no version of its table knows it": lambda path: path.with_name("other.parquet").write_bytes(path.read_bytes()),
}


@pytest.mark.parametrize("problem", DAMAGE)
def test_a_damaged_file_is_named(verify: Any, lake: Path, problem: str) -> None:
    path = first_file(lake)
    DAMAGE[problem](path)

    status, said = verify()

    assert status == 1
    assert problem in said
    assert str(path.parent) in said
    assert ("export --rescan" in said) or "Remove the files that no version knows." in said


def test_another_number_of_rows_than_was_committed_is_named(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a program writes them that does not name its files by their content."""
    made = Lake.open(lake, create=True)
    add(made, range(10))
    [file] = made.files("archive")
    with made.writing() as writing:
        (made.path / file.path).rename((made.path / file.path).with_name("of-another-program.parquet"))
        action = AddAction(
            f"{file.partition}/of-another-program.parquet", file.bytes, {"day": f"{DAY}"}, 0, True, '{"numRecords": 11}'
        )
        delta = writing.table("archive")
        delta.create_write_transaction([action], "append", delta.schema(), ["day"])
    with made.writing() as writing:
        writing.commit("archive", "test", remove=[file])

    assert main(["verify", "--lake", str(lake)]) == 1

    said = capsys.readouterr()
    assert "it has 10 rows, committed were 11." in said.err
    assert "The content of 1 files cannot be compared: another program has written them." in said.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["verify", "--since", "2026-13-45"], "argument --since: '2026-13-45' is not a day, such as 2026-11-21"),
        (["report", "--until", "yesterday"], "argument --until: 'yesterday' is not a day, such as 2026-11-21"),
        (["rollup", "--keep-days", "0"], "argument --keep-days: '0' is not a whole number from 1 on"),
        (["report", "--days", "0"], "argument --days: '0' is not a whole number from 1 to 3660"),
        (["report", "--days", "9999"], "argument --days: '9999' is not a whole number from 1 to 3660"),
        (["run", "--every", "soon"], "argument --every: 'soon' is not a duration such as 30s, 10m or 1.5h"),
        (["rollup", "--sla", "default"], "argument --sla: QUEUE=30s or QUEUE/CHANNEL=5m is wanted, not 'default'"),
        (["rollup", "--sla", "default=3 weeks"], "argument --sla: '3 weeks' is not a duration"),
        (["rollup", "--sla", "default=0s"], "argument --sla: '0s' is not a duration"),
        (["compact", "--target-size", "0"], "argument --target-size: a size such as 128MB is wanted, not '0'"),
        (["compact", "--older-than", "-1"], "argument --older-than: "),
    ],
)
def test_an_option_that_is_not_understood_says_what_it_wants(
    lake: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*options, "--lake", str(lake)])
    assert said in capsys.readouterr().err


def test_rows_that_the_lake_lacks_are_reported_by_day(verify: Any, database: psycopg.Connection[Any]) -> None:
    fill_archive(database, 1, xid="'3'::xid8")
    fill_dead_letters(database, 1, xid="'3'::xid8")

    status, said = verify()

    assert status == 1
    assert f"archive of {DAY}: the lake has 150 rows, the database 151: the lake lacks 1 of these." in said
    assert f"dead letters of {DAY}: the lake has 10, the database 11: the lake lacks 1 of these." in said
    assert said.count("then run `export --rescan`") == 1


def test_rows_that_are_not_exported_yet_and_rows_that_retention_deleted_are_no_difference(
    verify: Any, database: psycopg.Connection[Any]
) -> None:
    fill_archive(database, 5)
    database.execute("DELETE FROM pgqueue_dead_letter")

    assert verify()[0] == 0


def test_old_days_that_were_removed_are_left_out_by_since(verify: Any, lake: Path) -> None:
    first_file(lake).unlink()

    assert verify("--since", "2026-03-15")[0] == 0
    assert verify("--since", "2026-03-14")[0] == 1


@pytest.mark.parametrize("lost", ["all versions", "the newest version", "the folder of the log"])
def test_a_lake_that_has_lost_commits_is_not_to_be_removed(verify: Any, lake: Path, lost: str) -> None:
    lose(lake, lost)

    status, said = verify()

    assert status == 1
    assert "from a backup" in said
    assert "new lake" in said
    assert "Remove the files" not in said, "they may be all that is left"
    assert "the database 0" not in said
    assert "Traceback" not in said


def test_nothing_is_found_while_others_write_and_compact(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, done = Lake.open(lake, create=True), threading.Event()
    add(made, range(1))
    statuses: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        commits = pool.submit(write_and_compact, made, done)
        try:
            # Both go on until each has done enough, whichever of them the machine favours.
            while len(statuses) < 15 or not commits.done():
                statuses.append(main(["verify", "--lake", str(lake)]))
                if len(statuses) >= 15:
                    done.set()
        finally:
            done.set()

    assert commits.result() > 10
    assert set(statuses) == {0}, capsys.readouterr().err


def write_and_compact(lake: Lake, done: threading.Event) -> int:
    while not done.is_set() or lake.delta("archive").version() <= 10:
        for _ in range(3):
            add(lake, range(1))
        compact(lake, find_work(lake, 2**20, date.max))
        vacuum(lake, "archive", 0)
    return lake.delta("archive").version()


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
