"""Days that are over: not read again, unless they grew; partitions that are dropped meanwhile."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export.archive import Partition, check_unchanged
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.losses import find_absent_days, find_losses
from django_pgqueue.spark.export.plan import make_plan
from django_pgqueue.spark.export.task import ExportOptions, perform
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.verify import compare
from tests.spark.rows import DAY, fill_archive, fill_dead_letters, make_partition
from tests.spark.test_export import expected, ids
from tests.support.sessions import Connect
from tests.support.sessions import Session as Database

OLDEST_DAY = """
SELECT to_date(min(right(c.relname, 8)), 'YYYYMMDD') FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'pgqueue_archived_message'::regclass
"""


def test_a_long_transaction_keeps_the_days_open_that_it_may_write_to(
    source: Source, database: Database, connect: Connect, lake: Path
) -> None:
    fill_archive(database, 10)
    late = connect()
    fill_archive(late, 1)
    for _ in range(3):
        export(source, lake)
    assert Lake.open(lake).state["closed_before"] is None
    late.commit()
    for _ in range(2):
        export(source, lake)

    assert Lake.open(lake).state["closed_before"]
    assert ids(lake) == expected(database)


def test_a_closed_day_that_grew_all_the_same_is_read_again(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 10)
    for _ in range(2):
        export(source, lake)
    fill_archive(database, 1000)

    assert export(source, lake).rows["archive"] == 1000
    assert ids(lake) == expected(database)


def test_a_partition_that_is_dropped_while_it_is_read_is_reported(
    source: Source, database: Database, lake: Path, tmp_path: Path
) -> None:
    fill_archive(database, 10)
    plan = make_plan(database, {}, {})
    drop(database)

    results = [perform(task, source, str(tmp_path)) for task in plan.tasks]

    assert list(find_losses(plan, results, {}, {})) == [
        "pgqueue_archived_message_20260314 was dropped while it was read: the lake does not have all of its rows."
    ]


def test_late_rows_of_a_closed_day_that_retention_drops_are_counted_and_reported(
    source: Source, database: Database, lake: Path
) -> None:
    """Nothing is new for the export, but 7 messages are lost. The export says it once, verify each time."""
    fill_archive(database, 10)
    for _ in range(2):
        export(source, lake)
    fill_archive(database, 7)
    database.execute("SELECT pgqueue_prune(p_archive_retention => '1 day')")

    text = "7 messages of 2026-03-14 were dropped before the lake had them."
    assert export(source, lake).losses == (text,)
    assert export(source, lake).losses == ()
    [problem], _ = compare(Lake.open(lake), source, DAY)
    assert problem.text == f"archive: {text}"
    assert problem.remedy.endswith(
        f"UPDATE pgqueue_lake SET lost = '{{}}' WHERE name = '{Lake.open(lake).description.name}';"
    )
    assert compare(Lake.open(lake), source, DAY + timedelta(days=1))[0] == []
    assert ids(lake) == list(range(min(ids(lake)), min(ids(lake)) + 10))


def test_a_day_that_the_lake_has_is_dropped_without_a_report(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 10)
    for _ in range(2):
        export(source, lake)
    database.execute("SELECT pgqueue_prune(p_archive_retention => '1 day')")

    assert export(source, lake).losses == ()
    assert compare(Lake.open(lake), source, DAY)[0] == []


def test_a_partition_that_was_dropped_between_two_exports_is_reported_once(
    source: Source, database: Database, lake: Path
) -> None:
    fill_archive(database, 10)
    export(source, lake)
    drop(database)

    assert "2026-03-14 was dropped since the last export" in export(source, lake).losses[0]
    assert export(source, lake).losses == ()


def test_days_that_came_and_were_dropped_between_two_exports_are_reported_once(
    source: Source, database: Database, lake: Path, capsys: pytest.CaptureFixture[str], dsn: str
) -> None:
    export(source, lake)
    with Lake.open(lake).writing() as writing:
        noted = Lake.open(lake).state | {"exported_at": "2026-03-14T12:00:00+00:00"}
        writing.commit("archive", "test", state=noted)
    fill_archive(database, 10)
    drop(database)
    [oldest] = database.execute(OLDEST_DAY).fetchone()

    assert main(["export", "--lake", str(lake), "--source", dsn]) == 1

    output = capsys.readouterr()
    assert "nothing is new" not in output.out
    assert (
        f"Warning: The archive has no partition of 2026-03-14 to {oldest - timedelta(days=1)} any more, days since the "
        "last export: the lake does not have their rows, if there were any." in output.err
    )
    assert main(["export", "--lake", str(lake), "--source", dsn]) == 0
    assert "nothing is new" in capsys.readouterr().out


def test_a_day_without_a_partition_between_days_that_have_one_is_no_loss() -> None:
    """No message was settled on it, or else retention would have dropped the days before it, too."""
    first, third = (Partition(1, f"p{day}", date(2026, 3, day), 1, 1, 8192) for day in (14, 16))
    state = {"exported_at": "2026-03-14T12:00:00+00:00"}

    assert list(find_absent_days([first, third], state, date(2026, 3, 20))) == []
    assert list(find_absent_days([third], state, date(2026, 3, 20))) == [date(2026, 3, 14), date(2026, 3, 15)]
    assert list(find_absent_days([], state, date(2026, 3, 15))) == [date(2026, 3, 14)]


def drop(database: Database) -> None:
    database.execute("DROP TABLE pgqueue_archived_message_20260314")


def test_a_partition_that_is_rewritten_while_it_is_read_fails_the_export(source: Source, database: Database) -> None:
    fill_archive(database, 10)
    plan = make_plan(database, {}, {})
    database.execute("VACUUM FULL pgqueue_archived_message_20260314")

    with pytest.raises(PipelineError, match=r"20260314 was rewritten .* run export again"):
        check_unchanged(database, plan.partitions)


def prune(database: Database) -> tuple[int, int, int]:
    """Partitions dropped and kept, dead letters deleted."""
    row = database.execute(
        "SELECT partitions_dropped, partitions_kept, dead_letters_deleted"
        " FROM pgqueue_prune(interval '3 days', interval '3 days', 7, p_keep_unexported => true)"
    ).fetchone()
    assert row is not None
    return row


def test_exported_rows_are_dropped_and_not_before(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 100)
    fill_dead_letters(database, 10)
    there = expected(database)
    assert prune(database) == (0, 1, 0)
    export(source, lake)
    assert prune(database) == (1, 0, 10)
    assert expected(database) == []
    assert ids(lake) == there
    assert len(ids(lake, "dead_letter")) == 10


def test_rows_that_are_committed_late_are_dropped_after_the_next_export(
    source: Source, database: Database, connect: Connect, lake: Path
) -> None:
    make_partition(database, DAY)
    slow = connect()
    fill_archive(slow, 5)
    fill_archive(database, 100)
    export(source, lake)
    assert prune(database) == (0, 1, 0), "its rows are not there yet"
    slow.commit()
    assert prune(database) == (0, 1, 0), "the lake has 100 of 105"
    there = expected(database)
    export(source, lake)
    assert prune(database) == (1, 0, 0)
    assert ids(lake) == there
    assert len(there) == 105


def test_a_day_from_which_an_operator_deleted_rows_is_left_alone(
    source: Source, database: Database, lake: Path
) -> None:
    fill_archive(database, 100)
    export(source, lake)
    database.execute("DELETE FROM pgqueue_archived_message WHERE id = (SELECT min(id) FROM pgqueue_archived_message)")
    assert prune(database) == (0, 1, 0)
    export(source, lake, ExportOptions(rescan=True))
    assert len(ids(lake)) == 100, "the lake keeps what it has"
    assert prune(database) == (0, 1, 0)


def test_the_next_export_after_retention_has_each_row_once(source: Source, database: Database, lake: Path) -> None:
    """The rows of a day that is gone stay in the lake, and nothing is taken twice."""
    fill_archive(database, 100)
    export(source, lake)
    prune(database)
    fill_archive(database, 7)
    export(source, lake)
    assert len(ids(lake)) == len(set(ids(lake))) == 107
    assert prune(database) == (0, 1, 0), "this partition is another one than the lake's day: 7 rows are not 107"
